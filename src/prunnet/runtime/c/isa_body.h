/* Everything once for one instruction set. The including file defines PK_V (floats in a vector), PK_ISA and PK_TABLE. */
#include "isa.h"
#include "vector.h"
#include "geometry.h"
#include "slab.h"
#include "sparse_conv.h"
#include "dense_conv.h"
#include "depthwise.h"
#include "conv.h"
#include "pair.h"
#include "pool.h"
#include "elementwise.h"
#include "transformer.h"

const pk_functions PK_TABLE = {
    conv_plan_bytes, conv_scratch_bytes, conv_plan, conv_run, pair_parts, pair_scratch_bytes, pair_run, max_pool, average_pool, global_average, activate, add, multiply,
    affine, gate, layer_norm, tokens, attention_scratch_bytes, attention, rows,
};
