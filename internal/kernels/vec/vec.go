// Package vec computes elementwise float32 functions, reductions and conversions
// over slices.
//
// A kernel writes len(dst) elements; its inputs have at least as many. dst may be an input
// itself (in place); partial overlaps are not allowed. Calls do not allocate. Comments give
// the Go loop that a kernel equals, and its error bound in ULP (units in the last place of
// the exact result) at every level; the generic twins compute in float64 and round once
// (at most 0.51 ULP) unless the comment says otherwise. NaN gives NaN. Subnormal
// numbers are neither flushed nor treated as zero.
//
// Assembly does not let the garbage collector in, so longer slices are cut into pieces that
// take a few microseconds.
package vec

//go:generate go -C ../_asm run . vec

// chunk is how many elements one assembly call takes at most: about 10 µs for the slowest kernel.
const chunk = 8192
