package vec

import "github.com/onward-ml/onward/internal/cpu"

// LSTMCellF32 updates the states of the units of an LSTM, as many as next has, from gates: the sums of its gates i, o, f and c, which
// begin unit elements apart and have a multiple of 16 elements each.
//
//	cell = cell*sigmoid(f) + sigmoid(i)*tanh(c)
//	next = sigmoid(o)*tanh(cell)
//
// It returns false, with nothing done, if the level has no kernel. gates are left as they are.
func LSTMCellF32(l cpu.Level, next, cell, gates []float32, unit int) bool {
	n := len(next)
	if n == 0 {
		return true
	}
	_, _ = cell[n-1], gates[3*unit+(n+15)&^15-1]
	return lstmCellF32(l, next, cell, gates, unit)
}
