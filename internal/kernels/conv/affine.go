package conv

import (
	"fmt"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Affine applies a folded BatchNormalization and its activation to pixels of one block of NCHW16c,
// such as a row. The assembly fuses product and sum. NaN propagates. dst may be x. Affine computes
//
//	for p := 0; p < len(dst); p += 16 {
//		for j := range 16 {
//			dst[p+j] = act(x[p+j]*scale[j] + shift[j])
//		}
//	}
func Affine(level cpu.Level, dst, x []float32, scale, shift *[Lanes]float32, act gemm.Activation, lo, hi float32) {
	if len(dst)%Lanes != 0 || len(x) < len(dst) {
		panic(fmt.Sprintf("conv: dst has %d elements and x %d, want equal multiples of %d", len(dst), len(x), Lanes))
	}
	lo, hi = (&BlockedEpilogue{Act: act, Lo: lo, Hi: hi}).bounds()
	runAffine(level, dst, x[:len(dst)], scale, shift, lo, hi)
}

func affineGeneric(dst, x []float32, scale, shift *[Lanes]float32, lo, hi float32) {
	for p := 0; p < len(dst); p += Lanes {
		d, s := (*[Lanes]float32)(dst[p:]), (*[Lanes]float32)(x[p:])
		for j, v := range s {
			d[j] = min(max(v*scale[j]+shift[j], lo), hi)
		}
	}
}
