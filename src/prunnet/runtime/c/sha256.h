#ifndef PRUN_SHA256_H
#define PRUN_SHA256_H

#include "platform.h"

void prun_sha256(const uint8_t *bytes, size_t length, uint8_t digest[32]);

#endif
