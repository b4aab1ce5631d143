package preprocess

import (
	"fmt"
	"math"
)

// Resampling describes the low-pass filter of [Resample]: a sinc function under a window.
type Resampling struct {
	Width   int     // zero crossings of the sinc on each side, at most 1024. Default: 6
	Rolloff float64 // cutoff as a part of the lower Nyquist frequency, 0 to 1. Default: 0.99
	// Beta is the parameter of a Kaiser window; torchaudio's default is 14.769656459379492.
	// Default: a Hann window.
	Beta float64
}

// Resample returns samples of one rate at another one, in samples a second, as torchaudio's
// Resample does with sinc_interp_hann and sinc_interp_kaiser. There are ⌈len·to/from⌉ of them.
func Resample(samples []float32, from, to int, r Resampling) ([]float32, error) {
	if r.Width == 0 {
		r.Width = 6
	}
	if r.Rolloff == 0 {
		r.Rolloff = 0.99
	}
	if from < 1 || to < 1 || from > 1<<24 || to > 1<<24 || r.Width < 1 || r.Width > 1<<10 || !(r.Rolloff > 0) ||
		r.Rolloff > 1 || !(r.Beta >= 0) || r.Beta > 100 {
		return nil, fmt.Errorf("preprocess: resampling of %d Hz to %d Hz with width %d, rolloff %g and beta %g; want "+
			"rates of 1 to %d, width 1 to 1024, rolloff 0 to 1, beta 0 to 100", from, to, r.Width, r.Rolloff, r.Beta,
			1<<24)
	}
	for a, b := from, to; ; a, b = b, a%b {
		if b == 0 {
			from, to = from/a, to/a
			break
		}
	}
	if from == to {
		return append([]float32(nil), samples...), nil
	}
	const most = int64(1) << 31
	if int64(len(samples)) > most/int64(to)*int64(from) {
		return nil, fmt.Errorf("preprocess: resampling of %d samples by %d/%d gives more than %d", len(samples), to,
			from, most)
	}
	f := sincFilter{Resampling: r, from: from, to: to}
	f.base = float64(min(from, to)) * r.Rolloff
	f.reach = int(math.Ceil(float64(r.Width) * float64(from) / f.base))
	out := make([]float32, (len(samples)*to+from-1)/from)
	const kept = 1 << 20 // weights that are kept
	phases := make([][]float32, min(to, kept/(2*f.reach+2)))
	var spare []float32
	for i := range out {
		phase := i % to
		middle := int(int64(i) * int64(from) / int64(to))
		var w []float32
		if phase < len(phases) {
			if phases[phase] == nil {
				phases[phase] = f.weights(nil, phase)
			}
			w = phases[phase]
		} else {
			spare = f.weights(spare[:0], phase)
			w = spare
		}
		first := middle - f.reach
		w = w[max(0, -first):]
		in := samples[min(max(0, first), len(samples)):]
		sum := 0.0
		for k := range min(len(w), len(in)) {
			sum += float64(w[k]) * float64(in[k])
		}
		out[i] = float32(sum)
	}
	return out, nil
}

// sincFilter holds the numbers of a filter between two rates without a common divisor.
type sincFilter struct {
	Resampling
	from, to int
	base     float64 // cutoff
	reach    int     // samples on each side
}

// weights appends the weights of the samples from -reach to reach+1 around the last one that is not
// after the result of a phase. torchaudio rounds the phase to float32.
func (f *sincFilter) weights(w []float32, phase int) []float32 {
	at := float64(float32(phase) / float32(f.to)) // in units of from samples
	middle := int(int64(phase) * int64(f.from) / int64(f.to))
	width := float64(f.Width)
	for k := -f.reach; k <= f.reach+1; k++ {
		t := (float64(middle+k)/float64(f.from) - at) * f.base
		if math.Abs(t) >= width {
			w = append(w, 0)
			continue
		}
		c := math.Cos(t * math.Pi / width / 2)
		window := c * c
		if f.Beta > 0 {
			window = bessel0(f.Beta*math.Sqrt(1-t/width*t/width)) / bessel0(f.Beta)
		}
		v := window * f.base / float64(f.from)
		if t != 0 {
			v *= math.Sin(t*math.Pi) / (t * math.Pi)
		}
		w = append(w, float32(v))
	}
	return w
}

// bessel0 returns the modified Bessel function of the first kind and order 0, by its power series.
func bessel0(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-17; k++ {
		term *= x / 2 / k * (x / 2 / k)
		sum += term
	}
	return sum
}
