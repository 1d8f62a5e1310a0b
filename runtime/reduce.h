/* The arithmetic of an all-reduce: adding one range of elements over ranks, in rank order. */
#ifndef DDPRT_REDUCE_H
#define DDPRT_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool reduce_adds(uint32_t dtype);
/* Bytes of one element of a type that it adds. */
size_t reduce_element_bytes(uint32_t dtype);

/* For elements [first, last) of type `dtype`: the sum of in[0], in[1], ... in this order, the first
 * `scaled` elements (counted from element 0) times `scale`, stored into every in[k]. The result
 * depends on the inputs and their number alone, not on how a range is split over calls. */
void reduce_range(uint32_t dtype, void *const *in, uint32_t n, size_t first, size_t last,
                  size_t scaled, double scale);

float reduce_from_float16(uint16_t h);
uint16_t reduce_to_float16(float f); /* nearest, ties to even; NaN is 0x7fff */
float reduce_from_bfloat16(uint16_t h);
uint16_t reduce_to_bfloat16(float f); /* likewise */

#endif
