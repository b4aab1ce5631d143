// Package vec computes elementwise float32 functions, reductions and conversions over slices.
//
// A kernel writes len(dst) elements; its inputs have at least as many. dst may be an input itself
// (in place), but must not overlap one partially. Calls do not allocate. The comment of a kernel
// gives the equivalent Go loop, and the error bound at every level in ULP (units in the last place
// of the exact result). Generic code computes in float64 and rounds once (at most 0.51 ULP) unless
// the comment says otherwise. NaN gives NaN. Subnormal numbers are neither flushed nor treated as
// zero.
//
// Assembly cannot be preempted for garbage collection, so long slices are processed in chunks of a
// few microseconds.
//
// # Masked stores
//
// A load that overlaps a masked store, or several stores, waits until they are in the cache.
// Kernels that replace rows in place therefore store the end of a row in parts of 8, 4, 2 and 1
// elements. On AMD Zen 4, Softmax rows of 49 elements took 45 instead of 23 ns with masked
// stores.
//
// # Short rows
//
// Sixteen short rows are reduced at once, with one accumulator each. The shuffle tree that adds
// their lanes is a transposition with additions. Every row takes the same path through the tree,
// and an incomplete last group repeats rows, so that a row's sum depends on that row alone.
// Columns shorter than a register are reduced as one long piece.
package vec

import "github.com/onward-ml/onward/internal/cpu"

//go:generate go -C ../_asm run . vec

// chunk is the maximum number of elements per assembly call: about 10 µs for the slowest kernel.
const chunk = 8192

// width returns the number of float32 elements of a vector at level l, 0 without vectors.
func width(l cpu.Level) int { return widths[l&3] }

// widths is a table rather than a switch, which would be part of each function for slices.
var widths = [4]int{cpu.AVX2: 8, cpu.AVX512: 16, cpu.NEON: 4}
