package contrib

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// SplitSignalSegments returns where a sound is loud, as rows of begin and end in milliseconds: the
// energy of a frame is above the median, and above the largest by energy_threshold_db.
var _ = register("SplitSignalSegments",
	"audio:float, sr:int64, frame_ms:int64, hop_ms:int64, energy_threshold_db:float", "segments:int64",
	always(splitSignal))

func splitSignal(c *call) ([]tensor.Value, error) {
	shape := c.tensor(0).Shape()
	if len(shape) != 2 || shape[0] != 1 {
		return nil, fmt.Errorf("the sound has shape %v, want [1, n]", shape)
	}
	rate, frame, hop, threshold := c.ints(1), c.ints(2), c.ints(3), c.floats(4)
	if len(rate) == 0 || len(frame) == 0 || len(hop) == 0 || len(threshold) == 0 {
		return nil, errors.New("sr, frame_ms, hop_ms and energy_threshold_db must not be empty")
	}
	const most = 1 << 20
	if max(rate[0], frame[0], hop[0]) > most || min(rate[0], frame[0], hop[0]) < 1 {
		return nil, fmt.Errorf("sr, frame_ms and hop_ms are %d, %d and %d, want 1 to %d", rate[0], frame[0],
			hop[0], most)
	}
	size, step := frame[0]*rate[0]/1000, hop[0]*rate[0]/1000
	if size > maxFourier {
		return nil, fmt.Errorf("a frame has %d samples, want at most %d", size, maxFourier)
	}
	window := make([]float32, size)
	for i := range window {
		sin := math.Sin(math.Pi * float64(i) / float64(size))
		window[i] = float32(sin * sin)
	}
	norm, bins, frames, err := stftNorm(c, c.floats(0), window, size, step, true)
	if err != nil {
		return nil, err
	}
	if err := c.Reserve(64 * int64(frames)); err != nil {
		return nil, err
	}
	energy := make([]float32, frames)
	for b := range bins {
		for k, v := range norm[b*frames : (b+1)*frames] {
			energy[k] += v
		}
	}
	for k, v := range energy {
		energy[k] = 10 * float32(math.Log10(float64(v+1e-10)))
	}
	sorted := slices.Sorted(slices.Values(energy))
	least := max(sorted[frames-1]+threshold[0], sorted[frames/2])
	var out []int64
	at := func(k int) int64 { return int64(float32(int64(k)*step) / float32(rate[0]) * 1000) }
	for from := 0; from < frames; from++ {
		if energy[from] <= least {
			continue
		}
		to := from
		for to < frames && energy[to] > least {
			to++
		}
		out = append(out, at(from), at(to))
		from = to
	}
	return values(shaped(out, len(out)/2, 2))
}
