//go:build !amd64 || purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

func canTranspose[E Bits](cpu.Level) bool { return false }

func transposeAny[E Bits](dst []E, ldd int, src []E, lds, rows, cols int) {
	for i := range rows {
		for j := range cols {
			dst[j*ldd+i] = src[i*lds+j]
		}
	}
}
