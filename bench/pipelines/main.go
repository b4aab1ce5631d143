// Command pipelines measures how many texts a second package pipeline embeds, beside Python
// programs with ONNX Runtime on the same files: batches of 256 in the order of the texts, as
// fastembed has them, and batches of 32 sorted by length, as sentence-transformers has them. Texts
// have mixed lengths. `make bench-pipelines` runs it on all-MiniLM-L6-v2, in float32 and in int8.
// It also measures how many pages a second the package reads, beside rapidocr.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/pipeline"
)

// The section of docs/pipelines.md between these lines is replaced.
const (
	begin = "<!-- written by make bench-pipelines -->\n"
	end   = "<!-- end of make bench-pipelines -->\n"
)

var (
	folder  = flag.String("folder", "", "folder of all-MiniLM-L6-v2 with onnx/model.onnx")
	pages   = flag.String("pages", "", "folder with images of pages to read; none: no pages")
	python  = flag.String("python", "", "Python with onnxruntime, onnx and tokenizers")
	script  = flag.String("script", "bench/pipelines/others.py", "the program that Python runs")
	threads = flag.Int("threads", 2, "threads")
	rounds  = flag.Int("rounds", 5, "alternating rounds")
	count   = flag.Int("texts", 1000, "texts")
	out     = flag.String("out", "", "Markdown file whose section is replaced")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/pipelines:", err)
		os.Exit(1)
	}
}

// method is a way to do all of the work. It returns the time that took and a number of the result.
type method struct {
	name, title string
	run         func(variant string) (took, float64, error)
	times       map[string][]took // by variant
}

// took is a time by the clock, and the processor time of the process.
type took struct{ wall, cpu time.Duration }

func wall(t took) time.Duration { return t.wall }

func processor(t took) time.Duration { return t.cpu }

// timed returns the time of f.
func timed(f func() (float64, error)) (took, float64, error) {
	start, used := time.Now(), cputime.Processor()
	x, err := f()
	return took{time.Since(start), cputime.Processor() - used}, x, err
}

func run(ctx context.Context) error {
	if *folder == "" || *python == "" {
		return fmt.Errorf("-folder and -python are needed; make bench-pipelines sets them")
	}
	texts := mixedTexts(*count)
	others, err := startOthers(ctx, texts)
	if err != nil {
		return err
	}
	defer others.Close()
	if _, _, err := others.run("sentence-transformers", "float32"); err != nil { // writes the quantized model, too
		return err
	}
	methods := []*method{
		others.method("fastembed", "ONNX Runtime and `tokenizers`, batches of 256, as fastembed"),
		others.method("sentence-transformers",
			"ONNX Runtime and `tokenizers`, sorted, batches of 32, as sentence-transformers"),
		{name: "onward", title: "package `pipeline`"},
	}
	variants, own := []string{"float32", "int8"}, map[string]*pipeline.Embedder{}
	for i, file := range []string{"", "quantized"} {
		o := &pipeline.EmbedderOptions{}
		o.Variant, o.Session = file, &onward.SessionOptions{Threads: *threads}
		e, err := pipeline.OpenEmbedder(ctx, *folder, o)
		if err != nil {
			return err
		}
		defer e.Close()
		own[variants[i]] = e
	}
	methods[2].run = func(variant string) (took, float64, error) {
		return timed(func() (float64, error) {
			v, err := own[variant].Embed(ctx, texts)
			if err != nil {
				return 0, err
			}
			return float64(v[len(v)-1][0]), nil
		})
	}
	if err := measure(methods, variants, len(texts)); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Processor: %s. Medians of %d alternating rounds on %d threads. %s", machine.CPU(), *rounds,
		*threads, strings.TrimSuffix(machine.Load(), "\n"))
	b.WriteString("\n\n")
	fmt.Fprintf(&b, "Texts a second, for %d texts of 1 to 200 words:\n\n", len(texts))
	table(&b, methods, variants, len(texts))
	if *pages != "" {
		methods, n, err := readers(ctx, others)
		if err != nil {
			return err
		}
		if err := measure(methods, []string{"pages"}, n); err != nil {
			return err
		}
		fmt.Fprintf(&b, "\nPages a second, for %d images of %d to %d lines of text:\n\n", n, fewest, most)
		table(&b, methods, []string{"pages"}, n)
	}
	fmt.Print(b.String())
	if *out == "" {
		return nil
	}
	return replace(*out, b.String())
}

// measure runs all methods in alternating rounds. n is the number of texts or pages.
func measure(methods []*method, variants []string, n int) error {
	order := slices.Clone(methods)
	for r := range *rounds + 1 { // the first one is not counted
		for _, v := range variants {
			for _, m := range order {
				d, x, err := m.run(v)
				if err != nil {
					return fmt.Errorf("%s: %w", m.name, err)
				}
				fmt.Printf("round %d: %s %s: %.1f/s, %.1f per processor second (%.4f)\n", r, m.name, v,
					float64(n)/d.wall.Seconds(), float64(n)/d.cpu.Seconds(), x)
				if m.times == nil {
					m.times = map[string][]took{}
				}
				if r > 0 {
					m.times[v] = append(m.times[v], d)
				}
			}
			slices.Reverse(order)
		}
	}
	return nil
}

// table writes the medians of n results as results a second, and as results per second of processor
// time. The last method is compared with the best of the others.
func table(b *strings.Builder, methods []*method, variants []string, n int) {
	fmt.Fprint(b, "|")
	for _, v := range variants {
		fmt.Fprintf(b, " | %s | %s, per processor second", v, v)
	}
	fmt.Fprintf(b, " |\n|---|%s\n", strings.Repeat("---:|", 2*len(variants)))
	best := make([]float64, 2*len(variants))
	for k, m := range methods {
		fmt.Fprintf(b, "| %s |", m.title)
		for i := range best {
			d := median(m.times[variants[i/2]], []func(took) time.Duration{wall, processor}[i%2])
			rate := float64(n) / d.Seconds()
			fmt.Fprintf(b, " %s", strconv.FormatFloat(rate, 'g', 3, 64))
			if k == len(methods)-1 {
				fmt.Fprintf(b, " (%.2f times the best)", rate/best[i])
			}
			best[i] = max(best[i], rate)
			fmt.Fprint(b, " |")
		}
		fmt.Fprintln(b)
	}
}

// median returns the median of one of the two times.
func median(list []took, of func(took) time.Duration) time.Duration {
	times := make([]time.Duration, len(list))
	for i, t := range list {
		times[i] = of(t)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// replace writes the section of a page.
func replace(path, section string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no section %q", path, strings.TrimSpace(begin))
	}
	return atomicfile.WriteBytes(path, 0o644, []byte(before+begin+"\n"+section+"\n"+end+after))
}

// mixedTexts returns n texts of common words, most of them short.
func mixedTexts(n int) []string {
	words := strings.Fields(`the of and to in is you that it was for on are as with they at be this have from or by one had
		not but what all were when we there can an your which their said if do will each about how up out them then she
		many some so these would other into has more her two like him see time could no make than first been its who now
		people my made over did down only way find use may water long little very after words called just where most know
		station city capital market government university computer science music history language weather research`)
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		f := r.Float64()
		var b strings.Builder
		for k := range 1 + int(200*f*f*f) {
			if k > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(words[r.IntN(len(words))])
		}
		texts[i] = b.String() + "."
	}
	return texts
}

// others is the Python process.
type others struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func startOthers(ctx context.Context, texts []string) (*others, error) {
	data, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("onward-texts-%d.json", os.Getpid()))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(path)
	o := &others{cmd: exec.CommandContext(ctx, *python, *script, *folder, path, strconv.Itoa(*threads), *pages)}
	o.cmd.Stderr = os.Stderr
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.out = bufio.NewReader(stdout)
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	_, _, err = o.run("sentence-transformers", "float32") // the file has been read then
	return o, err
}

func (o *others) Close() error {
	o.in.Close()
	return o.cmd.Wait()
}

// method returns a method of the process.
func (o *others) method(name, title string) *method {
	return &method{name: name, title: title, run: func(variant string) (took, float64, error) {
		return o.run(name, variant)
	}}
}

func (o *others) run(method, variant string) (took, float64, error) {
	line, err := o.ask(method + " " + variant)
	if err != nil {
		return took{}, 0, err
	}
	var seconds, used, x float64
	if _, err := fmt.Sscan(line, &seconds, &used, &x); err != nil {
		return took{}, 0, err
	}
	return took{time.Duration(seconds * 1e9), time.Duration(used * 1e9)}, x, nil
}

// ask returns the answer to a command.
func (o *others) ask(command string) (string, error) {
	if _, err := fmt.Fprintln(o.in, command); err != nil {
		return "", err
	}
	line, err := o.out.ReadString('\n')
	return strings.TrimSpace(line), err
}
