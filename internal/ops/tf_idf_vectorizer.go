package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
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

	size  int // length of an output row
	words gramNode[string]
	nums  gramNode[int64]
}

// gramNode is a node of the tree of n-grams.
type gramNode[K comparable] struct {
	next map[K]*gramNode[K]
	id   int // 1 + the index of the n-gram that ends here; 0: none
}

func (n *gramNode[K]) add(gram []K, id int) {
	for _, k := range gram {
		if n.next == nil {
			n.next = map[K]*gramNode[K]{}
		}
		m := n.next[k]
		if m == nil {
			m = &gramNode[K]{}
			n.next[k] = m
		}
		n = m
	}
	n.id = id
}

var _ = kit.Register(&kit.Def{Name: "TfIdfVectorizer", Since: kit.Versions{9},
	In: "X:T", Out: "Y:float", Types: "T: string int32 int64", Build: buildTfIdf})

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
		a.Errorf("min_gram_length is %d, max_gram_length %d and max_skip_count %d, want at least 1, at least the first and at least 0", op.MinGram, op.MaxGram, op.MaxSkip)
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
	var err error
	if len(words) > 0 {
		err = fillGrams(&op.words, words, counts, len(op.Columns), op)
	} else {
		err = fillGrams(&op.nums, kit.IntsOf64(nums), counts, len(op.Columns), op)
	}
	if err != nil {
		return a.Fail(err)
	}
	return op
}

// fillGrams adds the n-grams of a pool. counts[n−1] is the offset of those of length n.
func fillGrams[K comparable](root *gramNode[K], pool []K, counts []int, columns int, op *TfIdfVectorizer) error {
	id := 0
	for i, start := range counts {
		end := len(pool)
		if i+1 < len(counts) {
			end = counts[i+1]
		}
		if start < 0 || end < start || end > len(pool) || (end-start)%(i+1) != 0 {
			return fmt.Errorf("attribute ngram_counts has n-grams of length %d in [%d, %d), outside a pool of %d", i+1, start, end, len(pool))
		}
		for ; start < end; start += i + 1 {
			if id++; i+1 >= op.MinGram && i+1 <= op.MaxGram {
				root.add(pool[start:start+i+1], id)
			}
		}
	}
	if id != columns {
		return fmt.Errorf("attribute ngram_indexes has %d elements, want %d, one per n-gram", columns, id)
	}
	return nil
}

// Infer implements ir.Operator.
func (op *TfIdfVectorizer) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	var out []ir.Dim
	if in != nil {
		if len(in) > 2 {
			return fmt.Errorf("input has rank %d, want at most 2", len(in))
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
		return fmt.Errorf("input has rank %d, want at most 2", x.Rank())
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
	y := tensor.Of[float32](out)
	kit.Clear(c, y)
	for r := range rows {
		row := y[r*op.size : (r+1)*op.size]
		switch x.DType() {
		case tensor.TypeString:
			err = countGrams(c, op, &op.words, tensor.Of[string](x)[r*cols:(r+1)*cols], row)
		case tensor.TypeInt64:
			err = countGrams(c, op, &op.nums, tensor.Of[int64](x)[r*cols:(r+1)*cols], row)
		default:
			wide, serr := ir.ScratchOf[int64](c, cols)
			if serr != nil {
				return serr
			}
			for i, v := range tensor.Of[int32](x)[r*cols : (r+1)*cols] {
				wide[i] = int64(v)
			}
			err = countGrams(c, op, &op.nums, wide, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countGrams adds the n-grams of one row of the input to the row of the output.
func countGrams[K comparable](c *ir.Call, op *TfIdfVectorizer, root *gramNode[K], x []K, row []float32) error {
	shortest := op.MinGram
	for skip := 1; skip <= min(op.MaxSkip, len(x))+1; skip++ {
		for start := range x {
			if start&0xfff == 0 {
				if err := c.Err(); err != nil {
					return err
				}
			}
			if shortest > len(x) || start+skip*(shortest-1) >= len(x) {
				break
			}
			n := root
			for i, size := start, 1; i < len(x); i, size = i+skip, size+1 {
				if n = n.next[x[i]]; n == nil {
					break
				}
				if n.id != 0 && size >= shortest {
					op.hit(row, n.id-1)
				}
			}
		}
		// The distance is irrelevant for single elements, so count them once.
		if shortest == 1 {
			if shortest = 2; shortest > op.MaxGram {
				break
			}
		}
	}
	return nil
}

// hit counts one occurrence of an n-gram.
func (op *TfIdfVectorizer) hit(row []float32, gram int) {
	w := float32(1)
	if op.Mode != "TF" && op.Weights != nil {
		w = op.Weights[gram]
	}
	if c := &row[op.Columns[gram]]; op.Mode == "IDF" {
		*c = w
	} else {
		*c += w
	}
}
