package goengine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// DefaultSpecializedShapes is the number of specialized plans of a session whose options do not set
// it.
const DefaultSpecializedShapes = 8

// specializer compiles plans that are specialized to input shapes, and keeps those that were used
// last. The layout NCHW16c and Winograd's algorithm need known heights and widths, which a model
// with free dimensions has only when it runs.
//
// A shape is worth a plan if the time that its runs would have saved with one exceeds the time to
// compile it. Both are estimated from the graph, so that the results of a sequence of runs do not
// depend on measured times.
type specializer struct {
	template *ir.Graph // optimized, but without packed weights
	opts     *driver.Options
	level    optimize.Level
	exec     exec.Options
	packs    *ir.Packs // of the general plan
	ahead    *ir.Packs // weights that are packed for the first plan, or nil
	mapping  *onnx.Mapping
	most     int   // number of plans
	maxBytes int64 // of the packed weights and constants of all plans
	cost     int64 // estimated time to compile a plan, in picoseconds
	left     int64 // size of the weights of convolutions that the first plan has to pack

	deciding []int       // inputs whose contents are part of a signature
	varying  atomic.Bool // these contents took too many values: they are ignored from now on

	ctx    context.Context // ends with the engine
	cancel context.CancelFunc
	work   sync.WaitGroup // compilations in the background
	one    chan struct{}  // holds an element during a compilation
	tick   atomic.Int64

	mu     sync.RWMutex
	shapes map[string]*shape
	values map[string]bool // contents of the deciding inputs
	first  bool            // a plan has been compiled
}

// shape is a signature of input shapes and of the contents of the deciding inputs, and its program.
type shape struct {
	program atomic.Pointer[program]
	used    atomic.Int64 // tick of the last run
	packs   *ir.Packs    // of the program
	bytes   int64        // constants of the program alone

	// Protected by specializer.mu.
	gain, credit int64         // estimated savings of one run, −1 if not known, and of all runs, in ps
	evictions    int           // of programs of the shape
	refused      bool          // the shape cannot have a plan
	done         chan struct{} // closed when the compilation in progress ends; nil if there is none
	beside       bool          // done is of an analysis in the background
}

// maxShapes limits the number of shapes whose runs are counted.
const maxShapes = 64

// backgroundWeights is the size in bytes from which on the first run waits for the packing of
// weights only if its plan saves as much time.
const backgroundWeights = 16 << 20

// otherWeights is the size in bytes up to which constants other than the weights of convolutions
// are kept for later plans, even if they are larger than those weights. The general plan packs many
// of them.
const otherWeights = 32 << 20

// specializable reports whether a graph would be faster with known inputs: it has few other
// constants than weights of convolutions, and either a convolution of float32 with constant weights
// over axes that depend on free dimensions, or inputs that decide between branches.
func specializable(g *ir.Graph) bool {
	free := slices.ContainsFunc(g.Inputs, func(id ir.ValueID) bool {
		t := g.Values[id].Type
		_, ok := ir.Ints(t.Shape)
		return t.Kind == tensor.KindTensor && (t.Shape == nil || !ok)
	})
	if (!free || !hasFreeConv(g)) && len(decidingInputs(g)) == 0 {
		return false
	}
	weights := convBytes(g)
	return constantBytes(g)-weights <= max(otherWeights, weights)
}

func hasFreeConv(g *ir.Graph) bool {
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.Graphs, hasFreeConv) {
			return true
		}
		switch n.Op.(type) {
		case *ops.Conv, *ops.FusedConv, *ops.ConvTranspose:
			x, w := g.Values[n.In[0]].Type, g.Values[n.In[1]]
			if w.Const == nil || x.Elem != tensor.TypeFloat32 {
				continue
			}
			if len(x.Shape) < 3 {
				return true
			}
			if _, ok := ir.Ints(x.Shape[1:]); !ok {
				return true
			}
		}
	}
	return false
}

// newSpecializer returns a specializer for a template, the graph before weights were packed.
func newSpecializer(template *ir.Graph, opts *driver.Options, level optimize.Level, eo exec.Options,
	mapping *onnx.Mapping) *specializer {
	s := &specializer{template: template, opts: opts, level: level, exec: eo, packs: eo.Packs, mapping: mapping}
	s.shapes, s.values, s.deciding = map[string]*shape{}, map[string]bool{}, decidingInputs(template)
	s.most, s.maxBytes, s.cost = opts.SpecializedShapes, MemoryLimit(opts.Limits)/4,
		int64(countNodes(template))*nodeCost
	if s.most == 0 {
		s.most = DefaultSpecializedShapes
	}
	s.left, s.one = convBytes(template), make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func countNodes(g *ir.Graph) int {
	n := len(g.Nodes)
	for _, node := range g.Nodes {
		for _, s := range node.Graphs {
			n += countNodes(s)
		}
	}
	return n
}

// convBytes returns the size of the weights of convolutions, which the general plan does not pack.
func convBytes(g *ir.Graph) (size int64) {
	for _, n := range g.Nodes {
		switch n.Op.(type) {
		case *ops.Conv, *ops.FusedConv, *ops.ConvTranspose:
			if w := g.Values[n.In[1]].Const; w != nil {
				size += tensor.SizeOf(w)
			}
		}
		for _, s := range n.Graphs {
			size += convBytes(s)
		}
	}
	return size
}

// constantBytes returns the size of the constants of a graph and its subgraphs.
func constantBytes(g *ir.Graph) (size int64) {
	for i := range g.Values {
		if v := g.Values[i].Const; v != nil {
			size += tensor.SizeOf(v)
		}
	}
	for _, n := range g.Nodes {
		for _, s := range n.Graphs {
			size += constantBytes(s)
		}
	}
	return size
}

// close stops compilations and waits for them.
func (s *specializer) close() {
	s.cancel()
	s.work.Wait()
}

// program returns the program for inputs, in the order of the graph, or nil if the general one is
// to run.
func (s *specializer) program(ctx context.Context, in []tensor.Value) *program {
	var buf [128]byte
	key := buf[:0]
	for i := range in {
		if t, ok := s.input(in, i).(*tensor.Tensor); ok {
			for _, d := range t.Shape() {
				key = strconv.AppendInt(key, int64(d), 10)
				key = append(key, 'x')
			}
		}
		key = append(key, ' ')
	}
	shapes := len(key)
	key = s.appendContents(key, in)
	s.mu.RLock()
	sh := s.shapes[string(key)]
	s.mu.RUnlock()
	if sh != nil {
		if p := sh.program.Load(); p != nil {
			sh.used.Store(s.tick.Add(1))
			return p
		}
	}
	return s.miss(ctx, string(key), shapes, in)
}

// input returns input i of a run, or its default.
func (s *specializer) input(in []tensor.Value, i int) tensor.Value {
	if in[i] != nil {
		return in[i]
	}
	return s.template.Defaults[s.template.Inputs[i]]
}

// miss counts a run of a shape that has no program, and compiles one if that is worth its time. key
// has the shapes up to index shapes, and contents after it.
func (s *specializer) miss(ctx context.Context, key string, shapes int, in []tensor.Value) *program {
	s.mu.Lock()
	key = s.countContents(key, shapes)
	sh := s.shape(key)
	for sh.done != nil && (sh.beside || s.opts.Deterministic) && ctx.Err() == nil {
		done := sh.done
		s.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		s.mu.Lock()
		sh = s.shape(key)
	}
	sh.used.Store(s.tick.Add(1))
	if p := sh.program.Load(); p != nil { // compiled by another run meanwhile
		s.mu.Unlock()
		return p
	}
	if sh.refused || sh.done != nil || s.ctx.Err() != nil {
		s.mu.Unlock()
		return nil
	}
	if sh.gain >= 0 && !s.opts.Deterministic {
		if sh.credit += sh.gain; sh.credit < s.price(sh) {
			s.mu.Unlock()
			return nil
		}
	}
	decided := len(key) > shapes
	sh.done, sh.beside = make(chan struct{}), sh.gain < 0 && !s.opts.Deterministic && s.short(in)
	saved, packed := sh.gain, s.first
	if sh.beside {
		s.work.Go(s.analysis(sh, in, decided))
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	g, names, err := s.typed(ctx, in, decided)
	if err != nil {
		s.fail(ctx, sh, err)
		return nil
	}
	if sh.gain < 0 {
		if saved = s.gains(sh, g, decided); saved < s.cost && !s.opts.Deterministic {
			s.finish(sh, nil, nil)
			return nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if !s.begin(ctx) {
		s.finish(sh, nil, nil)
		return nil
	}
	if !packed && !s.opts.Deterministic && s.left > backgroundWeights && saved < s.left*packTime {
		s.work.Go(func() { s.compile(s.ctx, sh, g, names) })
		return nil
	}
	s.compile(ctx, sh, g, names)
	return sh.program.Load()
}

// shape returns the shape of a key, a new one if it is not known. The caller holds s.mu.
func (s *specializer) shape(key string) *shape {
	sh := s.shapes[key]
	if sh == nil {
		s.forget()
		sh = &shape{gain: -1}
		s.shapes[key] = sh
	}
	return sh
}

// begin claims the compilation that may be in progress. It waits for another one only with
// Deterministic.
func (s *specializer) begin(ctx context.Context) bool {
	select {
	case s.one <- struct{}{}:
		return true
	default:
	}
	if s.opts.Deterministic {
		select {
		case s.one <- struct{}{}:
			return true
		case <-ctx.Done():
		}
	}
	return false
}

// forget removes the shape without program that was used longest ago, if there are too many.
func (s *specializer) forget() {
	if len(s.shapes) < maxShapes+s.most {
		return
	}
	oldest := ""
	for k, sh := range s.shapes {
		if sh.program.Load() == nil && sh.done == nil &&
			(oldest == "" || sh.used.Load() < s.shapes[oldest].used.Load()) {
			oldest = k
		}
	}
	delete(s.shapes, oldest)
}

// typed returns the graph with the shapes of the inputs, and with the contents of those that decide
// if decided is set, and both in words.
func (s *specializer) typed(ctx context.Context, in []tensor.Value, decided bool) (*ir.Graph, string, error) {
	shapes, contents := s.known(in, decided)
	return s.shaped(ctx, shapes, contents)
}

// known returns the shapes of the inputs, and the contents of those that decide if decided is set.
func (s *specializer) known(in []tensor.Value, decided bool) (shapes [][]int, contents []*tensor.Tensor) {
	shapes, contents = make([][]int, len(in)), make([]*tensor.Tensor, len(in))
	for i := range in {
		if t, ok := s.input(in, i).(*tensor.Tensor); ok {
			shapes[i] = append([]int{}, t.Shape()...)
			if decided && slices.Contains(s.deciding, i) && t.Len() == 1 {
				contents[i] = t
			}
		}
	}
	return shapes, contents
}

// shaped is typed for shapes, nil for inputs that are no tensors, and contents, nil if unknown.
func (s *specializer) shaped(ctx context.Context, shapes [][]int,
	contents []*tensor.Tensor) (*ir.Graph, string, error) {
	g := s.template.Clone()
	var names []string
	for i, id := range g.Inputs {
		if shapes[i] == nil {
			continue
		}
		v := &g.Values[id]
		declared := v.Type
		shape := make([]ir.Dim, len(shapes[i]))
		dims := make([]string, len(shape))
		for k, n := range shapes[i] {
			shape[k], dims[k] = ir.Known(n), strconv.Itoa(n)
		}
		if !slices.Equal(declared.Shape, shape) {
			names = append(names, v.Name+"="+strings.Join(dims, "x"))
		}
		declared.Shape = shape
		v.Type = declared
		if t := contents[i]; t != nil {
			v.Const = t.Clone()
			names = append(names, v.Name+"="+contentOf(t))
		}
	}
	return g, strings.Join(names, ", "), s.guard(func() error {
		return optimize.Resolve(ctx, g, &optimize.Options{Eval: evaluator(ctx)})
	})
}

// guard calls fn, which reads constants, and returns faults of mapped memory and panics as errors.
func (s *specializer) guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fail.Errorf("internal error: %v", r)
		}
	}()
	if s.mapping != nil {
		return s.mapping.Check(s.mapping.Guard(fn))
	}
	return fn()
}

// compile compiles the program of a shape from a graph with known input shapes, after begin.
func (s *specializer) compile(ctx context.Context, sh *shape, g *ir.Graph, names string) {
	defer func() { <-s.one }()
	start := time.Now()
	packs := s.packs.Fork()
	p := &program{graph: g, shapes: names}
	err := s.guard(func() (err error) {
		if err = optimizeGraph(ctx, g, s.opts, optimization{level: s.level, packs: packs}); err != nil {
			return err
		}
		eo := s.exec
		eo.Packs = packs
		p.plan, err = exec.Compile(ctx, g, eo)
		return err
	})
	if err != nil {
		packs.Release()
		s.fail(ctx, sh, err)
		return
	}
	s.mu.Lock()
	s.first = true
	s.ahead.Release()
	s.ahead = nil
	sh.packs, sh.bytes = packs, s.ownBytes(g)
	if s.exec.BFloat16 {
		sh.bytes += convBytes(s.template) / 2 // each plan rounds the weights
	}
	s.mu.Unlock()
	s.finish(sh, p, nil)
	s.opts.Log().Debug("specialized a plan", "shapes", names, "duration", time.Since(start))
}

// ownBytes returns the size of the constants of a graph that the template does not have.
func (s *specializer) ownBytes(g *ir.Graph) (n int64) {
	for i := range g.Values {
		v := g.Values[i].Const
		if v != nil && (i >= len(s.template.Values) || s.template.Values[i].Const != v) {
			n += tensor.SizeOf(v)
		}
	}
	return n
}

// fail ends the compilation of a shape with an error. If the run was cancelled, a later one tries
// again.
func (s *specializer) fail(ctx context.Context, sh *shape, err error) {
	if ctx.Err() != nil && s.ctx.Err() == nil {
		err = nil
	}
	s.finish(sh, nil, err)
}

// finish ends the compilation of a shape, with a program, an error, or neither if it is to be tried
// again. It evicts the programs that were used longest ago while there are too many.
func (s *specializer) finish(sh *shape, p *program, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		close(sh.done)
		sh.done, sh.beside = nil, false
	}()
	if err != nil {
		sh.refused = true
		if !errors.Is(err, context.Canceled) {
			s.opts.Log().Log(s.ctx, slog.LevelDebug, "no specialized plan", "reason", err)
		}
		return
	}
	if p == nil {
		return
	}
	sh.program.Store(p)
	for {
		count, bytes, oldest := 0, s.packs.Beyond(), ""
		for k, o := range s.shapes {
			if o.program.Load() == nil {
				continue
			}
			count++
			bytes += o.bytes
			if o != sh && (oldest == "" || o.used.Load() < s.shapes[oldest].used.Load()) {
				oldest = k
			}
		}
		switch {
		case count <= s.most && bytes <= s.maxBytes:
			return
		case oldest != "":
			s.drop(s.shapes[oldest])
		default:
			sh.refused = true // larger than the limit on its own
			s.drop(sh)
			return
		}
	}
}

// drop frees the program of a shape.
func (s *specializer) drop(sh *shape) {
	sh.program.Store(nil)
	sh.packs.Release()
	sh.packs, sh.bytes = nil, 0
	sh.credit = 0
	sh.evictions++
}

// price returns the savings from which on a shape is worth a plan. If one run does not save the
// time to compile it, they double with each eviction: more shapes than plans may occur in turn.
func (s *specializer) price(sh *shape) int64 {
	const most = 10
	if sh.gain >= s.cost {
		return s.cost
	}
	return s.cost << min(sh.evictions, most)
}
