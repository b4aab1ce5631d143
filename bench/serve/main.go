// Command serve measures onward serve on loopback: the time that REST and gRPC add to Session.Run,
// the throughput beside KServe's Python model server, the gain of dynamic batching, and memory over
// many requests. It prints a section for docs/serving.md; `make bench-serve` runs it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The section of docs/serving.md between these lines is replaced.
const (
	begin = "<!-- written by make bench-serve -->\n"
	end   = "<!-- end of make bench-serve -->\n"
)

var (
	only       = flag.String("only", "latency,kserve,batching,embeddings,soak", "what to measure, comma-separated")
	rounds     = flag.Int("rounds", 5, "alternating rounds")
	duration   = flag.Duration("duration", 2*time.Second, "measured time of a block")
	clientsN   = flag.Int("clients", 8, "concurrent clients")
	requests   = flag.Int("requests", 1_000_000, "requests of the soak test")
	python     = flag.String("python", "", "Python with kserve and onnxruntime; without it, the comparison is left out")
	squeezenet = flag.String("squeezenet", "", "ONNX file of squeezenet (default: of the ONNX backend suite)")
	folder     = flag.String("folder", "", "model folder for embeddings; without it, they are left out")
	beside     = flag.String("beside", "", "address of another server of /v1/embeddings, to measure beside")
	out        = flag.String("out", "", "Markdown file whose section is replaced")
	binary     = flag.String("onward", "", "onward binary (default: built)")
)

func main() {
	flag.Parse()
	if flag.Arg(0) == emptyServer {
		fmt.Fprintln(os.Stderr, "bench/serve:", serveEmpty())
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/serve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "onward-bench-serve-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	exe := *binary
	if exe == "" {
		if exe, err = machine.Onward(ctx, dir); err != nil {
			return err
		}
	}
	models, err := makeModels(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on loopback on %s, %d cores, %s; client and server share the cores.\n", machine.CPU(),
		runtime.NumCPU(), runtime.Version())
	b.WriteString(machine.Load())
	for _, part := range []struct {
		name string
		run  func(context.Context, *strings.Builder, string, []*model) error
	}{{"latency", latency}, {"kserve", compare}, {"batching", batching}, {"embeddings", embeddings},
		{"soak", soak}} {
		if !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		if err := part.run(ctx, &b, exe, models); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	fmt.Print(b.String())
	if *out == "" {
		return nil
	}
	text, err := os.ReadFile(*out)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(text, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the lines %q and %q", *out, begin, end)
	}
	return atomicfile.WriteBytes(*out, 0o666, slices.Concat(head, []byte(begin), []byte(b.String()), []byte(end), tail))
}

// model is a served model and its input.
type model struct {
	name, path string
	input      string
	shape      []int
	data       *tensor.Tensor
	batch      bool // whether dimension 0 is the batch
}

func makeModels(dir string) ([]*model, error) {
	digits, err := datasets.Get("digits.onnx")
	if err != nil {
		return nil, err
	}
	wide, err := perceptron()
	if err != nil {
		return nil, err
	}
	path := *squeezenet
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(cache, "onward", "onnx-1.22.0", "light", "light_squeezenet.onnx")
	}
	squeeze, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w (make suite fetches it)", err)
	}
	models := []*model{
		{name: "digits", input: "image", shape: []int{1, 1, 8, 8}, batch: true},
		{name: "squeezenet", input: "data_0", shape: []int{1, 3, 224, 224}},
		{name: "perceptron", input: "x", shape: []int{1, 2048}, batch: true},
	}
	for i, data := range [][]byte{digits, squeeze, wide} {
		m := models[i]
		m.path = filepath.Join(dir, m.name+".onnx")
		if err := os.WriteFile(m.path, data, 0o666); err != nil {
			return nil, err
		}
		n := 1
		for _, d := range m.shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i%17) / 17
		}
		if m.data, err = tensor.New(x, m.shape...); err != nil {
			return nil, err
		}
	}
	return models, nil
}

// perceptron returns a model of three 2048×2048 layers: a single row reads all weights,
// as a batch does.
func perceptron() ([]byte, error) {
	const n = 2048
	b := onnx.NewModel("perceptron").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", n).Output("y", onnx.Float, "n", n)
	last := "x"
	for i := range 3 {
		w := make([]float32, n*n)
		for j := range w {
			w[j] = float32((j*7919+i)%201-100) / 3200
		}
		weights, product, next := fmt.Sprintf("w%d", i), fmt.Sprintf("p%d", i), fmt.Sprintf("r%d", i)
		if i == 2 {
			next = "y"
		}
		b.Initializer(weights, w, n, n)
		b.Node("MatMul", []string{last, weights}, []string{product})
		b.Node("Relu", []string{product}, []string{next})
		last = next
	}
	return b.Must().Marshal()
}

// latency measures what the protocols add to a run in the process.
func latency(ctx context.Context, b *strings.Builder, exe string, models []*model) error {
	m := models[0]
	srv, err := startOnward(ctx, exe, m.path)
	if err != nil {
		return err
	}
	defer srv.stop()
	sess, err := onward.Open(ctx, m.path, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	none, err := startEmpty(ctx)
	if err != nil {
		return err
	}
	defer none.stop()
	var kinds []*client
	for _, srv := range []*server{srv, none} {
		grpc, err := grpcClient(srv.grpc, m)
		if err != nil {
			return err
		}
		kinds = append(kinds, grpc, restClient(srv.http, m))
	}
	defer func() {
		for _, c := range kinds {
			c.close()
		}
	}()
	bare := &client{infer: func(ctx context.Context) error {
		_, err := sess.Run(ctx, onward.Values{m.input: m.data}, nil)
		return err
	}, close: func() {}}
	kinds = slices.Insert(kinds, 0, bare)
	medians := make([][]float64, len(kinds))
	for range *rounds {
		for i, c := range kinds {
			l, err := load(ctx, []*client{c}, *duration)
			if err != nil {
				return err
			}
			medians[i] = append(medians[i], l.quantile(.5))
		}
	}
	fmt.Fprintf(b, "\nOne client, model `digits`, %d alternating rounds. Added is the median of the rounds' "+
		"differences to `Session.Run` in the process, and the smallest one; "+
		"of this, the last column is the time of a server whose handlers do nothing (grpc-go and net/http).\n\n"+
		"| | median of a request | added | smallest | empty server |\n|---|---:|---:|---:|---:|\n", *rounds)
	fmt.Fprintf(b, "| `Session.Run` | %.0f µs | | | |\n", median(medians[0]))
	for i, name := range []string{"gRPC", "REST, binary"} {
		var added []float64
		for r, x := range medians[i+1] {
			added = append(added, x-medians[0][r])
		}
		fmt.Fprintf(b, "| %s | %.0f µs | %.0f µs | %.0f µs | %.0f µs |\n", name, median(medians[i+1]), median(added),
			slices.Min(added), median(medians[i+3]))
	}
	return nil
}

// compare measures throughput and tail latency beside KServe's model server with ONNX Runtime.
func compare(ctx context.Context, b *strings.Builder, exe string, models []*model) error {
	if *python == "" {
		fmt.Fprintln(os.Stderr, "left out: -python is not set, so there is no KServe model server to compare with")
		return nil
	}
	fmt.Fprintf(b, "\n%d clients, medians of %d alternating rounds; `kserve` is KServe's Python model server with "+
		"ONNX Runtime, and the client is the same.\n\n"+
		"| model | protocol | onward | kserve | ratio | p99 onward | p99 kserve |\n"+
		"|---|---|---:|---:|---:|---:|---:|\n", *clientsN, *rounds)
	for _, m := range models[:2] {
		ours, err := startOnward(ctx, exe, m.path)
		if err != nil {
			return err
		}
		defer ours.stop()
		theirs, err := startKServe(ctx, m)
		if err != nil {
			return err
		}
		defer theirs.stop()
		for _, protocol := range []string{"gRPC", "REST, binary"} {
			var rate, p99 [2][]float64
			for range *rounds {
				for i, srv := range []*server{ours, theirs} {
					l, err := srv.load(ctx, protocol, m, *clientsN, *duration)
					if err != nil {
						return err
					}
					rate[i] = append(rate[i], l.rate())
					p99[i] = append(p99[i], l.quantile(.99))
				}
			}
			a, c := median(rate[0]), median(rate[1])
			fmt.Fprintf(b, "| `%s` | %s | %.0f/s | %.0f/s | %.1f | %.2f ms | %.2f ms |\n", m.name, protocol, a, c, a/c,
				median(p99[0])/1e3, median(p99[1])/1e3)
		}
		ours.stop()
		theirs.stop()
	}
	return nil
}

// batching measures dynamic batching against the gain of a batch in the engine.
func batching(ctx context.Context, b *strings.Builder, exe string, models []*model) error {
	m := models[2]
	const size = 16
	sess, err := onward.Open(ctx, m.path, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	var engine [2][]float64
	for range *rounds {
		for i, n := range []int{1, size} {
			x, err := tensor.Zeros(tensor.TypeFloat32, n, m.shape[1])
			if err != nil {
				return err
			}
			l, err := load(ctx, []*client{{infer: func(ctx context.Context) error {
				_, err := sess.Run(ctx, onward.Values{m.input: x}, nil)
				return err
			}}}, *duration/2)
			if err != nil {
				return err
			}
			engine[i] = append(engine[i], l.rate()*float64(n))
		}
	}
	plain, err := startOnward(ctx, exe, m.path)
	if err != nil {
		return err
	}
	defer plain.stop()
	batched, err := startOnward(ctx, exe, m.path, "--max-batch", fmt.Sprint(size))
	if err != nil {
		return err
	}
	defer batched.stop()
	var rate [2][]float64
	for range *rounds {
		for i, srv := range []*server{plain, batched} {
			l, err := srv.load(ctx, "gRPC", m, 2*size, *duration)
			if err != nil {
				return err
			}
			rate[i] = append(rate[i], l.rate())
		}
	}
	a, c := median(rate[0]), median(rate[1])
	fmt.Fprintf(b, "\nDynamic batching: model `perceptron` (three layers of 2048×2048), %d clients over gRPC: %.0f/s "+
		"without and %.0f/s with `--max-batch %d`, %.1f times as much. "+
		"In the process a batch of %d is %.1f times as fast as single runs.\n", 2*size, a, c, size, c/a, size,
		median(engine[1])/median(engine[0]))
	return nil
}

// soak sends many requests and samples the server's memory.
func soak(ctx context.Context, b *strings.Builder, exe string, models []*model) error {
	m := models[0]
	srv, err := startOnward(ctx, exe, m.path)
	if err != nil {
		return err
	}
	defer srv.stop()
	const samples = 20
	var memory []float64
	failed := 0
	start := time.Now()
	for i := range samples {
		protocol := []string{"gRPC", "REST, binary"}[i%2]
		n, err := srv.count(ctx, protocol, m, *clientsN, *requests/samples)
		if err != nil {
			return err
		}
		failed += n
		mb, err := srv.memory()
		if err != nil {
			return err
		}
		memory = append(memory, mb)
	}
	half := memory[samples/2:]
	fmt.Fprintf(b, "\n%d requests, half over gRPC and half over REST, at %.0f/s: %d errors. The server's memory "+
		"(RSS) is %.0f MB after %d requests and %.0f MB after the last; "+
		"%.0f to %.0f MB in the second half.\n", *requests, float64(*requests)/time.Since(start).Seconds(), failed,
		memory[0], *requests/samples, memory[samples-1], slices.Min(half), slices.Max(half))
	if failed > 0 {
		return fmt.Errorf("%d of %d requests failed", failed, *requests)
	}
	if grown := slices.Max(half) - slices.Max(memory[:samples/2]); grown > 16 {
		return fmt.Errorf("the server's memory grew by %.0f MB in the second half: %.0f", grown, memory)
	}
	return nil
}

func median[T cmp.Ordered](x []T) T {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
