package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// Concat copies the channels of blocked images, one input after the other, from channel From of the
// first one on. From and the numbers of channels of all inputs but the last one are multiples of 4.
type Concat struct {
	In   []Layout
	Out  Layout
	From int
}

// channelsAt is where channels of a Concat come from: an element of an image of an input.
type channelsAt struct {
	input, block, lane int
}

// Infer gives the blocked type.
func (m *Concat) Infer(c *ir.InferContext) error { return inferBlocked(c, &m.Out) }

// sources returns the inputs and offsets of the output's channels, in groups of that many channels,
// 16 or 4.
func (m *Concat) sources(group int) []channelsAt {
	from := make([]channelsAt, 0, m.Out.Blocks()*conv.Lanes/group)
	for i, skip := 0, m.From; i < len(m.In); i++ {
		for c := skip; c < m.In[i].C && len(from)*group < m.Out.C; c += group {
			from = append(from, channelsAt{i, c / conv.Lanes, c % conv.Lanes})
		}
		skip = max(0, skip-m.In[i].C)
	}
	return from
}

// whole reports whether blocks stay whole, and no channels that follow become padding: they may be
// infinite.
func (m *Concat) whole() bool {
	whole, end := m.From%conv.Lanes == 0, -m.From
	for i := range m.In {
		whole = whole && end%conv.Lanes == 0
		end += m.In[i].C
	}
	return whole && (m.Out.C == end || m.Out.C%conv.Lanes == 0)
}

// Run copies whole blocks, rows where the borders differ, or groups of four channels.
func (m *Concat) Run(c *ir.Call) error {
	n := -1
	xs := make([][]float32, len(m.In))
	same := m.whole()
	layouts := []*Layout{&m.Out}
	for i := range m.In {
		ni, x, err := blockedIn(c, i, &m.In[i])
		if err != nil {
			return err
		}
		if n >= 0 && ni != n {
			return fail.Errorf("input %d has %d images, want %d", i, ni, n)
		}
		n, xs[i] = ni, x
		l := &m.In[i]
		same = same && l.Block == m.Out.Block && l.Row == m.Out.Row && l.Top == m.Out.Top &&
			l.Left == m.Out.Left && l.H == m.Out.H
		layouts = append(layouts, l)
	}
	if same {
		t, err := c.Output(0, tensor.TypeFloat32, n, m.Out.Len())
		if err != nil {
			return err
		}
		from, y := m.sources(conv.Lanes), tensor.MustData[float32](t)
		blocks, size := len(from), m.Out.Block
		c.Launch(n*blocks, 1+(1<<15)/size, func(lo, hi int) {
			for k := lo; k < hi; k++ {
				i, cb := k/blocks, k%blocks
				in := &m.In[from[cb].input]
				src := xs[from[cb].input][i*in.Len():][:in.Len()]
				dst := y[i*m.Out.Len():][:m.Out.Len()]
				at := from[cb].block * size
				copy(dst[cb*size:min(len(dst), (cb+1)*size)], src[at:min(len(src), at+size)])
			}
		})
		return nil
	}
	y, err := blockedOut(c, n, &m.Out)
	if err != nil {
		return err
	}
	group := 4
	if m.whole() {
		group = conv.Lanes
	}
	from := m.sources(group)
	blockedRows(c, n, layouts, func(i, cb, row, w int) {
		dst := y[i*m.Out.Len()+m.Out.At(cb, row, 0):][:w]
		var parts [conv.Lanes / 4][]float32
		for k := range conv.Lanes / group {
			if at := cb*conv.Lanes/group + k; at < len(from) {
				f := &from[at]
				in := &m.In[f.input]
				parts[k] = xs[f.input][i*in.Len()+in.At(f.block, row, 0):][:w][f.lane:]
			}
		}
		if group == conv.Lanes {
			copy(dst, parts[0])
			return
		}
		vec.JoinGroupsF32(cpu.Active(), dst, &parts)
	})
	return nil
}
