package conv

import (
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
)

// TestChooseWinograd wants the algorithm that is fastest on Sapphire Rapids, one thread, for sizes
// of the fit.
func TestChooseWinograd(t *testing.T) {
	for _, c := range []struct {
		cin, cout, h, w int
		avx2, avx512    int
	}{
		{64, 128, 494, 16, 4, 4},
		{64, 64, 100, 8, 4, 4},
		{128, 128, 3, 80, 4, 4},
		{128, 128, 2, 80, 2, 2},
		{256, 256, 16, 16, 4, 4},
		{512, 512, 20, 20, 4, 4},
		{384, 384, 10, 10, 2, 2},
		{64, 64, 6, 6, 2, 2},
		{512, 512, 7, 7, 2, 2},
		{16, 16, 64, 64, 4, 4},
	} {
		for level, want := range map[cpu.Level]int{cpu.AVX2: c.avx2, cpu.AVX512: c.avx512} {
			if got := ChooseWinograd(level, c.cin, c.cout, c.h, c.w, 1); got != want {
				t.Errorf("%s: %d to %d channels of %d×%d: tile %d, want %d", level, c.cin, c.cout, c.h, c.w, got, want)
			}
		}
	}
	if got := ChooseWinograd(cpu.Generic, 64, 64, 56, 56, 1); got != 0 {
		t.Errorf("generic: tile %d, want 0", got)
	}
}
