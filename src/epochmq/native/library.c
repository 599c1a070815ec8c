/* What the loader asks before it trusts the library. */
#include "native.h"

#ifndef EPQ_SOURCE
#define EPQ_SOURCE "unknown"
#endif

/* Hash of the sources that this was made of; another one than that of the files means stale. */
const char *epq_source(void) { return EPQ_SOURCE; }

/* Called once, before anything else. */
void epq_init(void) { crc_init(); }

/* For tests: the CRC as records carry it. */
uint32_t epq_crc(const uint8_t *at, int64_t size) { return crc_of(at, (size_t)size); }
