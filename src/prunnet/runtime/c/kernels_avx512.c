/* The kernels for x86-64 processors with AVX-512. */
#if defined(__x86_64__) && !defined(PK_BASE_ONLY)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif

#define PK_V 16
#define PK_ISA PK_AVX512
#define PK_TABLE pk_avx512
#include "isa_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
typedef int pk_avx512_is_for_x86;
#endif
