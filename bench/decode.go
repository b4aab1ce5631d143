package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// decodeLayers is the number of layers of the decoders.
const decodeLayers = 4

// decodeWeights lists the formats of the weights and their sizes in bytes per element, with float32
// scales of blocks of 32.
var decodeWeights = []struct {
	name  string
	dense dense
	bytes float64
}{
	{"float32", (*transformer).plain, 4},
	{"float16", (*transformer).half, 2},
	{"8 bits", nbits(8, 4), 1 + 4./32},
	{"4 bits", nbits(4, 4), .5 + 4./32},
}

// measureDecode measures steps of a decoder with caches that are states, for each format of weights
// and length of the past, and prints the share of the measured bandwidth at which a step reads
// weights and caches. ONNX Runtime shares buffers of fixed size between past and present.
func measureDecode(ctx context.Context, only *regexp.Regexp, threads []measure.Measured, d time.Duration,
	rounds int) error {
	providers := measure.Providers("openvino")
	for _, m := range threads {
		rate := bandwidth(m.Threads)
		fmt.Printf("%d threads read %.1f GB/s\n", m.Threads, rate/1e9)
		for _, w := range decodeWeights {
			for _, past := range []int{1, 16, 512, 4096, 32768} {
				line := fmt.Sprintf("%-8s %6d tokens", w.name, past)
				if !only.MatchString(line) {
					continue
				}
				model := llama(decodeLayers, past, w.dense)
				for _, v := range append(model.Graph.Inputs, model.Graph.Outputs...) {
					if s := v.Type.Tensor.Shape; len(s.Dims) == 4 { // a cache
						s.Dims[2] = onnx.Dim{Kind: onnx.DimParam, Param: "length"}
					}
				}
				bytes := w.bytes * decodeLayers * (2*1024*1024 + 2*1024*256 + 3*1024*2816)
				bytes += decodeLayers * 2 * 4 * 64 * 4 * float64(past)
				times, err := decodeTimes(ctx, model, providers, past, m.Threads, d, rounds)
				if err != nil {
					return err
				}
				for i, p := range providers {
					line += fmt.Sprintf("  %s %.3f ms, %.0f %% of bandwidth", p, times[i].Seconds()*1e3,
						100*bytes/times[i].Seconds()/rate)
				}
				fmt.Printf("%s  ratio %.2f\n", line, times[len(times)-1].Seconds()/times[0].Seconds())
			}
		}
	}
	return nil
}

// decodeTimes returns the shortest time of a step for each provider, which take turns.
func decodeTimes(ctx context.Context, m *onnx.Model, providers []string, past, threads int, d time.Duration,
	rounds int) ([]time.Duration, error) {
	best := make([]time.Duration, len(providers))
	for range rounds {
		for i, p := range providers {
			t, err := decodeTime(ctx, m, p, past, threads, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			if best[i] == 0 || t < best[i] {
				best[i] = t
			}
		}
	}
	return best, nil
}

func decodeTime(ctx context.Context, m *onnx.Model, p string, past, threads int,
	d time.Duration) (time.Duration, error) {
	s, err := onward.OpenModel(ctx, m, &onward.SessionOptions{Threads: threads,
		Providers: []onward.ProviderConfig{{Name: p}}})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	b, err := s.NewBinding()
	if err != nil {
		return 0, err
	}
	defer b.Close()
	shared := p != "cpu"
	var caches []string
	for _, in := range s.Inputs() {
		var shape []int
		for _, v := range in.Shape {
			if v.Value < 0 {
				v.Value = int64(past)
				if shared {
					v.Value++
				}
				caches = append(caches, in.Name)
			}
			shape = append(shape, int(v.Value))
		}
		x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
		err = errors.Join(err, b.BindCPUInput(in.Name, x))
		if present := strings.Replace(in.Name, "past", "present", 1); shared && present != in.Name {
			err = errors.Join(err, b.BindCPUOutput(present, x))
		}
	}
	for _, o := range s.Outputs() {
		if in := strings.Replace(o.Name, "present", "past", 1); in == o.Name {
			err = errors.Join(err, b.BindOutput(o.Name, onward.Buffer{}))
		} else if !shared {
			err = errors.Join(err, b.BindState(o.Name, in))
		}
	}
	if err != nil {
		return 0, err
	}
	best := time.Duration(0)
	for k, end := 0, time.Now().Add(d); k < 4 || time.Now().Before(end); k++ {
		start := time.Now()
		if err := s.RunBinding(ctx, b, nil); err != nil {
			return 0, err
		}
		if t := time.Since(start); k > 1 && (best == 0 || t < best) {
			best = t
		}
		for _, name := range caches {
			if !shared {
				if err := b.TruncateState(name, 2, past); err != nil {
					return 0, err
				}
			}
		}
	}
	return best, nil
}

// bandwidth returns the bytes per second that goroutines read from memory larger than the caches.
func bandwidth(threads int) float64 {
	const n = 256 << 20
	data := memory.FromRaw[float32](memory.Aligned(n))
	for i := range data {
		data[i] = float32(i)
	}
	best := time.Hour
	for range 8 {
		start := time.Now()
		var wg sync.WaitGroup
		for k := range threads {
			part := data[k*len(data)/threads : (k+1)*len(data)/threads]
			wg.Go(func() {
				for x := range slices.Chunk(part, 1<<12) {
					vec.ReduceMaxF32(cpu.Active(), x)
				}
			})
		}
		wg.Wait()
		best = min(best, time.Since(start))
	}
	return n / best.Seconds()
}
