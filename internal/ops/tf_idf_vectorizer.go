package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// TfIdfVectorizer counts the n-grams of a pool in each row of its input. The elements of an n-gram
// may be up to MaxSkip apart, all at the same distance. In mode TF the output is the count, in IDF
// the weight of n-grams that occur, in TFIDF their product. Weights belong to the n-grams of the
// pool and are 1 by default (https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html).
type TfIdfVectorizer struct {
	Mode             string
	MinGram, MaxGram int
	MaxSkip          int
	Columns          []int // output columns of the n-grams of the pool
	Weights          []float32

	size  int              // length of an output row
	last  bool             // the last of the n-grams with one column sets its weight: IDF
	words map[string]int64 // numbers of the pool's strings
	grams gramNode
}

// gramNode is a node of the tree of n-grams.
type gramNode struct {
	next  map[int64]*gramNode
	table []*gramNode // of the numbers from least on, instead of next, if these are dense
	least int64
	id    int // 1 + the index of the n-gram that ends here; 0: none
}

// find returns the node after k, or nil.
func (n *gramNode) find(k int64) *gramNode {
	if i := uint64(k - n.least); i < uint64(len(n.table)) {
		return n.table[i]
	}
	return n.next[k]
}

func (n *gramNode) add(gram []int64, id int) {
	for _, k := range gram {
		if n.next == nil {
			n.next = map[int64]*gramNode{}
		}
		m := n.next[k]
		if m == nil {
			m = &gramNode{}
			n.next[k] = m
		}
		n = m
	}
	n.id = id
}

// index replaces the maps of dense numbers by tables, in n and the nodes after it. N-grams may be
// too long for recursion.
func (n *gramNode) index() {
	for open := []*gramNode{n}; len(open) > 0; {
		n, open = open[len(open)-1], open[:len(open)-1]
		least, most := int64(math.MaxInt64), int64(math.MinInt64)
		for k, m := range n.next {
			least, most = min(least, k), max(most, k)
			open = append(open, m)
		}
		if span := uint64(most - least); len(n.next) > 0 && span < uint64(8*len(n.next)+64) {
			n.table, n.least = make([]*gramNode, span+1), least
			for k, m := range n.next {
				n.table[k-least] = m
			}
			n.next = nil
		}
	}
}

var _ = kit.Register(&kit.Def{Name: "TfIdfVectorizer", Since: kit.Versions{9},
	Class: kit.ClassOther,
	In:    "X:T", Out: "Y:float", Types: "T: string int32 int64", Build: buildTfIdf})

func buildTfIdf(a *kit.Attrs, opset int) kit.Operator {
	a.Require("max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes")
	op := &TfIdfVectorizer{
		Mode:    a.Enum("mode", "TF", "TF", "IDF", "TFIDF"),
		MinGram: a.Int("min_gram_length", 1),
		MaxGram: a.Int("max_gram_length", 1),
		MaxSkip: a.Int("max_skip_count", 0),
		Columns: a.Ints("ngram_indexes"),
		Weights: a.Floats("weights"),
	}
	counts, nums, words := a.Ints("ngram_counts"), a.Ints("pool_int64s"), a.Strings("pool_strings")
	if op.MinGram < 1 || op.MaxGram < op.MinGram || op.MaxSkip < 0 {
		a.Errorf("min_gram_length is %d, max_gram_length %d and max_skip_count %d, want at least 1, at least the "+
			"first and at least 0", op.MinGram, op.MaxGram, op.MaxSkip)
	}
	if len(nums) > 0 && len(words) > 0 {
		a.Errorf("both pool_int64s and pool_strings are set")
	}
	for i, k := range op.Columns {
		if k < 0 || int64(k) > 1<<40 {
			a.Errorf("attribute ngram_indexes has %d at position %d, want 0 to %d", k, i, int64(1)<<40)
			return op
		}
		op.size = max(op.size, k+1)
	}
	if op.Weights != nil && len(op.Weights) != len(op.Columns) {
		a.Errorf("attribute weights has %d elements, ngram_indexes has %d", len(op.Weights), len(op.Columns))
	}
	columns := slices.Sorted(slices.Values(op.Columns))
	op.last = op.Mode == "IDF" && op.Weights != nil && len(slices.Compact(columns)) < len(op.Columns)
	pool := kit.IntsOf64(nums)
	if len(words) > 0 {
		op.words = map[string]int64{}
		for _, w := range words {
			k, ok := op.words[w]
			if !ok {
				k = int64(len(op.words))
				op.words[w] = k
			}
			pool = append(pool, k)
		}
	}
	if err := op.fillGrams(pool, counts); err != nil {
		return a.Fail(err)
	}
	return op
}

// fillGrams adds the n-grams of a pool. counts[n−1] is the offset of those of length n.
func (op *TfIdfVectorizer) fillGrams(pool []int64, counts []int) error {
	id := 0
	for i, start := range counts {
		end := len(pool)
		if i+1 < len(counts) {
			end = counts[i+1]
		}
		if start < 0 || end < start || end > len(pool) || (end-start)%(i+1) != 0 {
			return fail.Errorf("attribute ngram_counts has n-grams of length %d in [%d, %d), outside a pool of %d",
				i+1, start, end, len(pool))
		}
		for ; start < end; start += i + 1 {
			if id++; i+1 >= op.MinGram && i+1 <= op.MaxGram {
				op.grams.add(pool[start:start+i+1], id)
			}
		}
	}
	if id != len(op.Columns) {
		return fail.Errorf("attribute ngram_indexes has %d elements, want %d, one per n-gram", len(op.Columns), id)
	}
	op.grams.index()
	return nil
}

// Infer implements ir.Operator.
func (op *TfIdfVectorizer) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	var out []ir.Dim
	if in != nil {
		if len(in) > 2 {
			return fail.Errorf("input has rank %d, want at most 2", len(in))
		}
		if len(in) == 2 {
			out = append(out, in[0])
		}
		out = append(out, ir.Known(op.size))
	}
	kit.SetShape(c, 0, tensor.TypeFloat32, out)
	return nil
}

// Run implements ir.Operator.
func (op *TfIdfVectorizer) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() > 2 {
		return fail.Errorf("input has rank %d, want at most 2", x.Rank())
	}
	rows, cols, shape := 1, x.Len(), []int{op.size}
	if x.Rank() == 2 {
		rows, cols = x.Dim(0), x.Dim(1)
		shape = []int{rows, op.size}
	}
	out, err := c.Output(0, tensor.TypeFloat32, shape...)
	if err != nil {
		return err
	}
	y := tensor.MustData[float32](out)
	ir.Clear(c, y)
	if (x.DType() == tensor.TypeString) != (op.words != nil) {
		return nil // no element is in the pool
	}
	meter := ir.Meter{C: c}
	nums, err := op.numbers(&meter, c, x)
	if err != nil {
		return err
	}
	c.Parallel(rows, kit.GrainFor(8*cols), func(lo, hi int) {
		meter := ir.Meter{C: c}
		var counts []uint32
		if n := len(op.grams.table); op.MinGram == 1 && n > 0 && n <= cols && !op.last && !c.Generic {
			counts = make([]uint32, n+1)
		}
		for r := lo; r < hi; r++ {
			x, row, shortest := nums[r*cols:(r+1)*cols], y[r*op.size:(r+1)*op.size], op.MinGram
			if counts != nil {
				meter.Check(cols)
				op.countSingle(counts, x, row)
				if shortest = 2; op.MaxGram == 1 {
					continue
				}
			}
			op.countGrams(&meter, x, row, shortest)
		}
	})
	return c.Err()
}

// numbers returns the elements of x as numbers: strings by their numbers in the pool, others as -1.
func (op *TfIdfVectorizer) numbers(meter *ir.Meter, c *ir.Call, x *tensor.Tensor) ([]int64, error) {
	if x.DType() == tensor.TypeInt64 {
		return tensor.MustData[int64](x), nil
	}
	nums, err := ir.ScratchOf[int64](c, x.Len())
	if err != nil {
		return nil, err
	}
	if x.DType() == tensor.TypeInt32 {
		for lo, hi := range ir.Steps(c, len(nums)) {
			vec.I32ToI64(cpu.Active(), nums[lo:hi], tensor.MustData[int32](x)[lo:hi])
		}
		return nums, nil
	}
	for i, s := range tensor.MustData[string](x) {
		meter.Check(len(s))
		k, ok := op.words[s]
		if !ok {
			k = -1
		}
		nums[i] = k
	}
	return nums, nil
}

// countSingle is countGrams for single elements, if the numbers that begin n-grams are dense. It
// counts all elements without a branch for those of the pool, in counts, which has one element more
// than the table of numbers.
func (op *TfIdfVectorizer) countSingle(counts []uint32, x []int64, row []float32) {
	clear(counts)
	for _, k := range x {
		counts[min(uint64(k-op.grams.least), uint64(len(counts)-1))]++
	}
	for k, n := range op.grams.table {
		if n != nil && n.id != 0 && counts[k] > 0 {
			op.hit(row, n.id-1, float32(counts[k]))
		}
	}
}

// countGrams adds the n-grams of one row of the input, which have at least that length, to the row
// of the output. It does not return if the run must stop.
func (op *TfIdfVectorizer) countGrams(meter *ir.Meter, x []int64, row []float32, shortest int) {
	for skip := 1; skip <= min(op.MaxSkip, len(x))+1; skip++ {
		if shortest > len(x) || skip*(shortest-1) >= len(x) {
			break
		}
		for start, first := range x[:len(x)-skip*(shortest-1)] {
			meter.Check(1)
			n := op.grams.find(first)
			for i, size := start, 1; n != nil; size++ {
				if n.id != 0 && size >= shortest {
					op.hit(row, n.id-1, 1)
				}
				if i += skip; i >= len(x) {
					break
				}
				n = n.find(x[i])
			}
		}
		// The distance is irrelevant for single elements, so count them once.
		if shortest == 1 {
			if shortest = 2; shortest > op.MaxGram {
				break
			}
		}
	}
}

// hit counts occurrences of an n-gram.
func (op *TfIdfVectorizer) hit(row []float32, gram int, count float32) {
	w := float32(1)
	if op.Mode != "TF" && op.Weights != nil {
		w = op.Weights[gram]
	}
	if c := &row[op.Columns[gram]]; op.Mode == "IDF" {
		*c = w
	} else {
		*c += count * w
	}
}
