package vec

import "github.com/onward-ml/onward/internal/cpu"

// Cells are N units of a recurrent operator in several rows, which are items of a batch.
type Cells struct {
	N, Rows        int
	Gates          []float32 // sums of the gates, which begin Unit elements apart
	Unit, GateStep int       // GateStep is the distance of rows
	// states before and after the step, and LSTM's cell state or GRU's reset state; rows at the
	// distance Step
	Hidden, Next, Second []float32
	Step                 int
	Y                    []float32 // nil, or another destination of Next, with rows at the distance YStep
	YStep                int
}

// check panics if rows of the states or of the gates are too short.
func (c *Cells) check(gates int, states ...[]float32) {
	last := c.Rows - 1
	for _, s := range states {
		_ = s[last*c.Step+c.N-1]
	}
	_ = c.Gates[last*c.GateStep+(gates-1)*c.Unit+c.N-1]
	if c.Y != nil {
		_ = c.Y[last*c.YStep+c.N-1]
	}
}

// y returns where the kernels write Next for a second time, and the distance of its rows.
func (c *Cells) y() ([]float32, int) {
	if c.Y == nil {
		return c.Next, c.Step
	}
	return c.Y, c.YStep
}

// calls returns the elements of the vectors of a row, and how many rows a call of a kernel takes,
// so that it is short.
func (c *Cells) calls() (wide, most int) {
	wide = (c.N + 15) &^ 15
	return wide, max(1, 1024/wide)
}

// LSTMCellF32 updates the states from the gates i, o, f and c:
//
//	second = second*sigmoid(f) + sigmoid(i)*tanh(c)
//	next = sigmoid(o)*tanh(second)
//
// It returns false, with nothing done, if the level has no kernel. The gates are left as they are.
func LSTMCellF32(l cpu.Level, c *Cells) bool {
	if c.N == 0 || c.Rows == 0 {
		return true
	}
	c.check(4, c.Next, c.Second)
	return lstmCellF32(l, c)
}

// GRUResetF32 replaces the gates z and r by their sigmoid, and computes second = hidden*r. It
// returns false, with nothing done, if the level has no kernel.
func GRUResetF32(l cpu.Level, c *Cells) bool {
	if c.N == 0 || c.Rows == 0 {
		return true
	}
	c.check(2, c.Hidden, c.Second)
	return gruResetF32(l, c)
}

// GRUStateF32 computes, from the gate h, those that [GRUResetF32] has computed, and, unless it is
// empty, recurrence, with rows at the distance step and as long as a gate:
//
//	n = tanh(h + r*recurrence)
//	next = z*hidden + n*(1-z)
//
// It returns false, with nothing done, if the level has no kernel. The gates are left as they are.
func GRUStateF32(l cpu.Level, c *Cells, zr, recurrence []float32, step int) bool {
	if c.N == 0 || c.Rows == 0 {
		return true
	}
	c.check(1, c.Hidden, c.Next)
	last := c.Rows - 1
	_ = zr[last*c.GateStep+c.Unit+c.N-1]
	if len(recurrence) > 0 {
		_ = recurrence[last*step+c.N-1]
	}
	return gruStateF32(l, c, zr, recurrence, step)
}
