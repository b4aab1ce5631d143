package pipeline

import (
	"math"
	"slices"
)

// pooling makes one vector of the vectors of a text's tokens, as Pooling of
// sentence-transformers does.
type pooling struct {
	modes         []string // their vectors are concatenated
	withoutPrompt bool     // tokens of a prompt do not count
}

// poolingModes lists the modes, in the order in which the older form of the configuration
// concatenates them, with the fields of that form.
var poolingModes = []struct{ name, field string }{
	{"cls", "pooling_mode_cls_token"},
	{"max", "pooling_mode_max_tokens"},
	{"mean", "pooling_mode_mean_tokens"},
	{"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
	{"weightedmean", "pooling_mode_weightedmean_tokens"},
	{"lasttoken", "pooling_mode_lasttoken"},
}

// parsePooling reads the configuration of a module Pooling.
func parsePooling(o *object) pooling {
	p := pooling{}
	var modes oneOrMore
	if o.get("pooling_mode", &modes) {
		p.modes = modes
	} else {
		for _, m := range poolingModes {
			on := false
			if o.get(m.field, &on); on {
				p.modes = append(p.modes, m.name)
			}
		}
		if len(p.modes) == 0 {
			p.modes = []string{"mean"}
		}
	}
	for _, m := range p.modes {
		if !isPoolingMode(m) {
			o.fail("pooling_mode", "%q is not supported", m)
		}
	}
	if len(p.modes) == 0 || len(p.modes) > len(poolingModes) {
		o.fail("pooling_mode", "there are %d modes, want 1 to %d", len(p.modes), len(poolingModes))
	}
	include := true
	o.get("include_prompt", &include)
	p.withoutPrompt = !include
	return p
}

func isPoolingMode(name string) bool {
	for _, m := range poolingModes {
		if m.name == name {
			return true
		}
	}
	return false
}

// pool appends the vectors of a text to dst: one of width numbers per mode. tokens holds
// the vectors of its tokens, of which the first skip belong to a prompt.
func (p *pooling) pool(dst, tokens []float32, width, skip int) []float32 {
	n := len(tokens) / width
	row := func(i int) []float32 { return tokens[i*width:][:width] }
	for _, mode := range p.modes {
		from := len(dst)
		dst = append(dst, make([]float32, width)...)
		out := dst[from:]
		switch mode {
		case "cls":
			if i := skip; n > 0 {
				if i >= n {
					i = 0
				}
				copy(out, row(i))
			}
		case "lasttoken":
			if n > skip {
				copy(out, row(n-1))
			}
		case "max":
			for c := range out {
				out[c] = float32(math.Inf(-1))
			}
			for i := skip; i < n; i++ {
				for c, x := range row(i) {
					out[c] = max(out[c], x)
				}
			}
		default:
			total := float32(0)
			for i := skip; i < n; i++ {
				w := float32(1)
				if mode == "weightedmean" {
					w = float32(i + 1)
				}
				total += w
				for c, x := range row(i) {
					out[c] += w * x
				}
			}
			if total == 0 {
				total = 1e-9
			}
			if mode == "mean_sqrt_len_tokens" {
				total = float32(math.Sqrt(float64(total)))
			}
			for c := range out {
				out[c] /= total
			}
		}
	}
	return dst
}

// normalize divides a vector by its Euclidean length, or by 1e-12 if it is shorter.
func normalize(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	scale := 1 / max(math.Sqrt(sum), 1e-12)
	for i := range v {
		v[i] = float32(float64(v[i]) * scale)
	}
}

// sequences returns the vectors of each text's tokens, without those of padding.
func (b *textBatch) sequences(data []float32, width int) [][]float32 {
	rows := make([][]float32, len(b.encodings))
	for r, e := range b.encodings {
		from := (r*b.columns + b.start(e.Len())) * width
		rows[r] = slices.Clip(data[from : from+e.Len()*width])
	}
	return rows
}
