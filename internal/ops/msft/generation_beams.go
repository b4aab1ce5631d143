package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// beamSearch keeps the most probable sequences of every batch entry. In each step it
// extends every sequence by every token and keeps the best extensions that do not end;
// those that end become hypotheses.
type beamSearch struct {
	generation
	EarlyStopping bool
}

const mostBeams = 128 // the limit of ONNX Runtime

func readBeamSearch(a *kit.Attrs, model int, in generationInputs) beamSearch {
	return beamSearch{generation: readGeneration(a, model, in), EarlyStopping: a.Int("early_stopping", 0) == 1}
}

// Infer implements [ir.Operator].
func (s *beamSearch) Infer(c *ir.InferContext) error {
	batch, most, err := s.inferSequences(c)
	kept, beams := ir.Unknown, ir.Unknown
	for at, d := range map[int]*ir.Dim{3: &beams, 4: &kept} {
		if t := c.Const(at); t != nil && t.DType() == tensor.TypeInt32 && t.Len() == 1 {
			*d = ir.Known(max(0, int(tensor.MustData[int32](t)[0])))
		}
	}
	c.SetOut(0, ir.TensorType(tensor.TypeInt32, batch, kept, most))
	for i, t := range []ir.Type{ir.TensorType(tensor.TypeFloat32, batch, kept),
		ir.TensorType(tensor.TypeFloat32, ir.Unknown, batch, beams, ir.Unknown)} {
		if c.Wants(1 + i) {
			c.SetOut(1+i, t)
		}
	}
	return err
}

// hypothesis is an ended sequence with its score.
type hypothesis struct {
	tokens []int32
	score  float32
}

// beamRun is the state of one run of a beam search.
type beamRun struct {
	*generationRun
	early   bool
	penalty float32        // exponent of the length: scores are divided by length^penalty
	scores  []float32      // accumulated log probability of each sequence
	ended   [][]hypothesis // hypotheses of every batch entry, best first
	full    []bool         // whether no sequence can improve the batch entry
}

// run performs the search. It calls setup before the first step, and first with the first
// step's scores before they are processed.
func (s *beamSearch) run(c *ir.Call, setup func(r *beamRun) error,
	first func(r *beamRun, rows [][]float32) error) error {
	beams, err := kit.ScalarInt(c.Tensor(3), "num_beams")
	if err != nil {
		return err
	}
	kept, err := kit.ScalarInt(c.Tensor(4), "num_return_sequences")
	if err != nil {
		return err
	}
	if beams < 1 || beams > mostBeams || kept < 1 || kept > beams {
		return fail.Errorf("num_beams is %d and num_return_sequences %d, want num_return_sequences <= num_beams <= "+
			"%d, both positive", beams, kept, mostBeams)
	}
	g, err := s.newRun(c, beams)
	if err != nil {
		return err
	}
	r := &beamRun{generationRun: g, early: s.EarlyStopping, penalty: 1,
		scores: make([]float32, len(g.sequences)), ended: make([][]hypothesis, g.batch), full: make([]bool, g.batch)}
	if t := c.Tensor(5); t != nil {
		if r.penalty, err = oneScale(c, "length_penalty", t); err != nil {
			return err
		}
	}
	for i := range r.scores {
		if i%beams > 0 {
			r.scores[i] = -1e9 // an entry's sequences are equal at first, so that only one may win
		}
	}
	if err := setup(r); err != nil {
		return err
	}
	encoded := r.feeds.logits != nil
	old := newSequences(len(r.sequences), r.most)
	var all []float32
	for {
		rows, err := r.generationRun.scores(c)
		if err != nil {
			return err
		}
		if r.step == 1 {
			if 2*beams > beams*r.words {
				return fail.Errorf("a vocabulary of %d tokens is too small for beam search", r.words)
			}
			if err := first(r, rows); err != nil {
				return err
			}
			if c.Wants(2) {
				y, err := c.Output(2, tensor.TypeFloat32, r.most-r.prompt, r.batch, beams, r.words)
				if err != nil {
					return err
				}
				all = tensor.MustData[float32](y)
				ir.Clear(c, all) // steps that are not run stay 0
			}
		}
		for i, row := range rows {
			logSoftmaxRow(&r.meter, row)
			r.process(i, row)
			for k := range row {
				row[k] += r.scores[i]
			}
		}
		if all != nil {
			all = all[copy(all, r.rows):]
		}
		next, origin := r.choose()
		old, r.sequences = r.sequences, old
		for i, from := range origin {
			r.meter.Check(len(old[from]) / 4)
			r.sequences[i] = append(append(r.sequences[i][:0], old[from]...), next[i])
		}
		// The scores that the encoder returns do not end a search.
		if len(r.sequences[0]) >= r.most || (!encoded || r.step > 1) && !slices.Contains(r.full, false) {
			break
		}
		if err := r.feeds.advance(c, r.generationRun, next, origin); err != nil {
			return err
		}
	}
	r.feeds.release(c)
	return r.write(c, kept)
}

// candidate is a sequence extended by one token.
type candidate struct {
	score float32
	at    int // sequence within the entry · vocabulary size + token
}

// choose returns, for each new sequence, its next token and the index of the sequence
// that it extends.
func (r *beamRun) choose() (next []int32, origin []int) {
	n := len(r.sequences)
	next, origin = make([]int32, n), make([]int, n)
	length := len(r.sequences[0])
	best := r.candidates()
	for b := range r.batch {
		base, chosen := b*r.beams, 0
		if r.full[b] {
			for i := range r.beams {
				next[base+i], r.scores[base+i] = int32(r.Pad), 0
			}
			continue
		}
		top := best[b*2*r.beams:][:2*r.beams]
		for i, t := range top {
			from, token := base+t.at/r.words, t.at%r.words
			if token == r.EOS {
				if i < r.beams {
					r.end(b, r.sequences[from], t.score)
				}
				continue
			}
			next[base+chosen], origin[base+chosen], r.scores[base+chosen] = int32(token), from, t.score
			if chosen++; chosen == r.beams {
				break
			}
		}
		if len(r.ended[b]) == r.beams {
			// ONNX Runtime takes the maximum over 2·beams scores from index b·beams on instead of
			// over the candidates of entry b, which begin at 2·b·beams.
			most := float32(math.Inf(-1))
			for _, t := range best[b*r.beams:][:2*r.beams] {
				most = max(most, t.score)
			}
			r.full[b] = r.early || r.ended[b][r.beams-1].score >= r.normal(most, length)
		}
	}
	return next, origin
}

// candidates returns the 2·beams best candidates of every batch entry, best first.
func (r *beamRun) candidates() []candidate {
	k, per := 2*r.beams, r.beams*r.words
	best := make([]candidate, 0, r.batch*k+1)
	for b := range r.batch {
		lo := len(best)
		for i, v := range r.rows[b*per:][:per] {
			r.meter.Check(0)
			if len(best)-lo == k {
				if !(v > best[len(best)-1].score) {
					continue
				}
				best = best[:len(best)-1]
			}
			at := len(best)
			for at > lo && v > best[at-1].score {
				at--
			}
			r.meter.Check(2 * (len(best) - at))
			best = slices.Insert(best, at, candidate{v, i})
		}
	}
	return best
}

// normal returns the score of a sequence normalized by its length.
func (r *beamRun) normal(score float32, length int) float32 {
	return score / float32(math.Pow(float64(float32(length)), float64(r.penalty)))
}

// end adds an ended sequence to the hypotheses of batch entry b if it is among the best.
func (r *beamRun) end(b int, tokens []int32, score float32) {
	h := hypothesis{score: r.normal(score, len(tokens))}
	at := len(r.ended[b])
	for at > 0 && h.score > r.ended[b][at-1].score {
		at--
	}
	if at == r.beams {
		return
	}
	if last := r.ended[b]; len(last) == r.beams {
		h.tokens, r.ended[b] = last[r.beams-1].tokens, last[:r.beams-1]
	} else {
		h.tokens = make([]int32, r.most)
	}
	h.tokens = append(h.tokens[:0], tokens...)
	r.ended[b] = slices.Insert(r.ended[b], at, h)
}

func (r *beamRun) write(c *ir.Call, kept int) error {
	for i, s := range r.sequences {
		if b := i / r.beams; !r.full[b] {
			r.end(b, s, r.scores[i])
		}
	}
	y, err := c.Output(0, tensor.TypeInt32, r.batch, kept, r.most)
	if err != nil {
		return err
	}
	dst := tensor.MustData[int32](y)
	kit.RepeatOf(dst, int32(r.Pad))
	scores := make([]float32, r.batch*kept)
	for i := range scores {
		h := r.ended[i/kept][i%kept]
		copy(dst[i*r.most:][:r.most], h.tokens)
		scores[i] = h.score
	}
	if !c.Wants(1) {
		return nil
	}
	if y, err = c.Output(1, tensor.TypeFloat32, r.batch, kept); err != nil {
		return err
	}
	copy(tensor.MustData[float32](y), scores)
	return nil
}
