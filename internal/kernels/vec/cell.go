package vec

import "github.com/onward-ml/onward/internal/cpu"

// LSTMStates are the states of N units of an LSTM for several rows, which are items of a batch.
type LSTMStates struct {
	N, Rows    int
	Next, Cell []float32 // rows at the distance Step
	Step       int
	Y          []float32 // nil, or another destination of Next, with rows at the distance YStep
	YStep      int
}

// LSTMCellF32 updates the states of rows from gates: the sums of their gates i, o, f and c, which begin unit elements apart and have
// a multiple of 16 elements each. The gates of a row are gateStep elements behind those of the one before.
//
//	cell = cell*sigmoid(f) + sigmoid(i)*tanh(c)
//	next = sigmoid(o)*tanh(cell)
//
// It returns false, with nothing done, if the level has no kernel. gates are left as they are.
func LSTMCellF32(l cpu.Level, s *LSTMStates, gates []float32, gateStep, unit int) bool {
	if s.N == 0 || s.Rows == 0 {
		return true
	}
	last := s.Rows - 1
	_, _, _ = s.Next[last*s.Step+s.N-1], s.Cell[last*s.Step+s.N-1], gates[last*gateStep+3*unit+(s.N+15)&^15-1]
	if s.Y != nil {
		_ = s.Y[last*s.YStep+s.N-1]
	}
	return lstmCellF32(l, s, gates, gateStep, unit)
}
