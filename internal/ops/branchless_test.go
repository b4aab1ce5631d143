package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestClipOfBytes clips every value of a byte.
func TestClipOfBytes(t *testing.T) {
	var u, wantU []uint8
	var s, wantS []int8
	for i := range 256 {
		u, wantU = append(u, uint8(i)), append(wantU, uint8(min(max(i, 7), 200)))
		v := i - 128
		s, wantS = append(s, int8(v)), append(wantS, int8(min(max(v, -100), 3)))
	}
	optest.Want(t, "Clip", 13, nil, optest.Tensor(wantU), optest.Tensor(u), optest.Tensor([]uint8{7}),
		optest.Tensor([]uint8{200}))
	optest.Want(t, "Clip", 13, nil, optest.Tensor(wantS), optest.Tensor(s), optest.Tensor([]int8{-100}),
		optest.Tensor([]int8{3}))
}

// TestIsInfSigns checks each choice of signs.
func TestIsInfSigns(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{inf, -inf, float32(math.NaN()), -float32(math.NaN()), math.MaxFloat32, 0, -1}
	for choice, want := range map[[2]int][]bool{
		{0, 0}: {false, false}, {1, 0}: {false, true}, {0, 1}: {true, false}, {1, 1}: {true, true},
	} {
		optest.Want(t, "IsInf", 20, map[string]any{"detect_negative": choice[0], "detect_positive": choice[1]},
			optest.Tensor(append(want, false, false, false, false, false)), optest.Tensor(x))
	}
}

// TestLpNormalizationOfExtremes normalizes long rows whose squares overflow or vanish in float32.
func TestLpNormalizationOfExtremes(t *testing.T) {
	for _, v := range []float32{1e30, 1e-30, 1, 0} {
		x, want := make([]float32, 64), make([]float32, 64)
		for i := range x {
			x[i] = v
			if v != 0 {
				want[i] = 0.125
			}
		}
		optest.Want(t, "LpNormalization", 1, nil, optest.Tensor(want, 1, 64), optest.Tensor(x, 1, 64))
	}
}
