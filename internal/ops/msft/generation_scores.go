package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// never is the score of a token that must not come next.
const never = -math.MaxFloat32

// process applies penalties and bans to the scores of sequence i. It implements the
// logits processors of ONNX Runtime, in its order.
func (r *generationRun) process(i int, row []float32) {
	seq, b := r.sequences[i], i/r.beams
	r.meter.Check(len(row))
	if r.penalty != 1 {
		clear(r.seen)
		for _, id := range seq {
			r.meter.Check(0)
			if id < 0 || int(id) >= len(row) || r.seen[id] {
				continue
			}
			r.seen[id] = true
			if row[id] < 0 {
				row[id] *= r.penalty
			} else {
				row[id] /= r.penalty
			}
		}
	}
	if n := r.NGram; n > 0 && n <= len(seq) {
		last := seq[len(seq)-(n-1):]
		for i := 0; i+n <= len(seq); i++ {
			r.meter.Check(n / 16)
			if id := seq[i+n-1]; slices.Equal(seq[i:i+n-1], last) && id >= 0 && int(id) < len(row) {
				row[id] = never
			}
		}
	}
	if r.vocab != nil {
		for i, v := range tensor.MustData[int32](r.vocab) {
			if v == 0 {
				row[i] = never
			}
		}
	}
	if r.prefix != nil && r.step == 1 {
		for i, v := range tensor.MustData[int32](r.prefix)[b*len(row):][:len(row)] {
			if v == 0 {
				row[i] = never
			}
		}
	}
	if len(seq) < r.least && r.EOS >= 0 && r.EOS < len(row) {
		row[r.EOS] = never
	}
	if r.temperature != 1 {
		for i := range row {
			row[i] /= r.temperature
		}
	}
	if r.presence != nil && r.presencePenalty != 0 {
		for i, v := range tensor.MustData[int32](r.presence)[b*len(row):][:len(row)] {
			row[i] -= float32(v) * r.presencePenalty
		}
	}
	if r.timestamps != nil {
		r.timestamps.process(seq, row)
	}
}

// logSoftmaxRow replaces scores by log probabilities, in place.
func logSoftmaxRow(meter *ir.Meter, row []float32) {
	top := float32(math.Inf(-1))
	for _, v := range row {
		top = max(top, v)
	}
	sum := 0.0
	for _, v := range row {
		meter.Check(4)
		sum += math.Exp(float64(v - top))
	}
	log := float32(math.Log(sum))
	for i, v := range row {
		row[i] = v - top - log
	}
}

// timestampRules implements the timestamp rules of speech models:
//
//   - timestamps come in pairs, except for the first
//   - timestamps do not decrease
//   - a timestamp comes next if all timestamps together are more probable than any text token
type timestampRules struct {
	EOS, Start, Translate, Transcribe, LM, None int // token ids; −1 if missing
	Begin                                       int // the first timestamp
}

// maxInitialTimestamp is the greatest timestamp, relative to the first one, that a
// transcription may begin with.
const maxInitialTimestamp = 50

func (t *timestampRules) check(words int) error {
	if t.Begin <= 0 || t.Begin >= words {
		return fail.Errorf("beginning_timestamp_token_id is %d, want 1 to %d", t.Begin, words-1)
	}
	return nil
}

func (t *timestampRules) process(seq []int32, row []float32) {
	ban := func(ids ...int) {
		for _, id := range ids {
			if id >= 0 && id < len(row) {
				row[id] = never
			}
		}
	}
	isTime := func(id int32) bool { return int(id) >= t.Begin }
	begin := len(seq) // number of tokens up to and including the first timestamp
	if i := slices.IndexFunc(seq, isTime); i >= 0 {
		begin = i + 1
	}
	ban(t.None, t.LM)
	if len(seq) > begin {
		ban(t.Start, t.Translate, t.Transcribe)
	}
	last := len(seq) > 0 && isTime(seq[len(seq)-1])
	paired := len(seq) <= begin || len(seq) < 2 || isTime(seq[len(seq)-2])
	switch {
	case last && paired:
		kit.RepeatOf(row[t.Begin:], never)
	case last:
		kit.RepeatOf(row[:min(max(t.EOS, 0), len(row))], never)
	}
	for i := len(seq) - 1; i >= 0; i-- {
		if !isTime(seq[i]) {
			continue
		}
		least := int(seq[i]) + 1
		if last && !paired {
			least--
		}
		kit.RepeatOf(row[t.Begin:min(max(least, t.Begin), len(row))], never)
		break
	}
	if len(seq) == begin {
		kit.RepeatOf(row[min(t.Begin+maxInitialTimestamp+1, len(row)):], never)
	}
	text, times := slices.Max(row[:t.Begin]), row[t.Begin:]
	top, sum := slices.Max(times), 0.0
	for _, v := range times {
		if v > never {
			sum += math.Exp(float64(v - top))
		}
	}
	if sum > 0 && float32(math.Log(sum))+top > text {
		kit.RepeatOf(row[:t.Begin], never)
	}
}
