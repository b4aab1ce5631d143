package exec

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// layout assigns the planned groups of a plan to offsets in one block of memory, for one signature
// of input shapes.
type layout struct {
	offset []int // per group; −1 if the group did not occur
	size   []int
	total  int
}

// align gives every buffer its own cache lines.
const align = 64

// newLayout places groups, largest first, each at the lowest offset at which it overlaps no group
// with an intersecting lifetime. The cost grows with the square of the number of groups, so it asks
// err before each, and returns nil if the run must stop.
func newLayout(groups []group, size []int, err func() error) *layout {
	l := &layout{offset: make([]int, len(groups)), size: size}
	order := make([]int, 0, len(groups))
	for i := range groups {
		l.offset[i] = -1
		if size[i] > 0 && (!groups[i].edge || size[i] <= edgeLimit) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(size[b], size[a]), a-b) })
	// Groups that have been placed, sorted by offset. Only those with intersecting lifetimes
	// matter.
	placed := make([]int, 0, len(order))
	for _, i := range order {
		if err() != nil {
			return nil
		}
		need := (size[i] + align - 1) &^ (align - 1)
		at := 0
		for _, j := range placed {
			if groups[j].last < groups[i].first || groups[i].last < groups[j].first {
				continue
			}
			end := l.offset[j] + (size[j]+align-1)&^(align-1)
			if at+need <= l.offset[j] {
				break
			}
			at = max(at, end)
		}
		l.offset[i] = at
		l.total = max(l.total, at+need)
		k := slices.IndexFunc(placed, func(j int) bool { return l.offset[j] > at })
		if k < 0 {
			k = len(placed)
		}
		placed = slices.Insert(placed, k, i)
	}
	return l
}

// staticSizes returns the size of every group in bytes if types determine all of them, so that the
// first run has a layout too; otherwise nil. A value that turns out to be larger has memory of its
// own.
func (p *Plan) staticSizes() []int {
	const most = min(1<<40, math.MaxInt/2) // total limit, so that offsets cannot overflow
	sizes, total := make([]int, len(p.groups)), 0
	for id, g := range p.group {
		if g < 0 {
			continue
		}
		t := p.graph.Values[id].Type
		shape, ok := ir.Ints(t.Shape)
		if !ok || t.Shape == nil || t.Elem == tensor.TypeString {
			return nil
		}
		n, err := tensor.ByteLen(t.Elem, shape)
		if err != nil || n > most {
			return nil
		}
		if total += n; total > most {
			return nil
		}
		sizes[g] = max(sizes[g], n)
	}
	return sizes
}

// layoutCache maps signatures to layouts.
type layoutCache struct {
	mu sync.RWMutex
	m  map[string]*layout
}

// maxLayouts limits the cache, since inputs of varying length cause many signatures.
const maxLayouts = 256

// maxPlanned limits the quadratic cost of placing groups.
const maxPlanned = 20000

func (c *layoutCache) get(sig []byte) *layout {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.m[string(sig)]
}

func (c *layoutCache) put(sig []byte, l *layout) {
	if l == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]*layout{}
	}
	if len(c.m) >= maxLayouts {
		for k := range c.m {
			delete(c.m, k)
			break
		}
	}
	c.m[string(sig)] = l
}

// signature appends the shape of a value to a layout's key.
func signature(b []byte, v tensor.Value) []byte {
	if t, ok := v.(*tensor.Tensor); ok {
		for _, d := range t.Shape() {
			b = strconv.AppendInt(b, int64(d), 36)
			b = append(b, 'x')
		}
	}
	return append(b, ';')
}
