// Command attack looks for models that end late, exceed their memory limit, panic, or make
// the two Go engines differ:
//
//	attack [-duration 1m] [-seed N] [-only REGEXP] [-cases N] [-out DIR] [-command PATH] [FAMILY…]
//
// The families, all by default, in turns until the duration is over:
//
//	cancel    large calls of every operator and type, on both engines, whose context ends during the run
//	limit     large calls and models that multiply memory, with their peak memory measured
//	mutate    models of the ONNX suite with structural changes, on both engines
//	extreme   valid calls of every operator with extreme attributes, integers and shapes, on both engines
//	external  models whose external data is in files that are sparse, links, devices or changing
//	decode    requests to each endpoint of onward serve whose decoded form is much larger
//	slow      connections to onward serve whose requests are never finished
//	flood     connections to onward serve that send frames of HTTP/2 again and again
//	pages     requests to onward serve that pages of other sites can make browsers send
//	signal    SIGTERM and SIGINT in each state of onward serve
//	writers   two jobs of onward map that write the same file
//	text      hostile texts to the endpoints of onward serve for texts, from clients that leave or read slowly
//	poll      repositories of onward serve --poll whose models are replaced while clients compare answers
//	load      requests whose results are compared, while models are reloaded, requests cancelled, clients slow,
//	          servers killed, and logs and traces refused
//
// The families after external build the command from the module.
//
// Each finding is printed with the model's file and a command that repeats it. The exit code is 1
// if there are findings.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// family is a kind of attack.
type family struct {
	name string
	// targets lists what the family attacks: operators or models.
	targets func(a *attack) []string
	// try attacks a target with the choices of a seed. It returns the model for the reproducer and
	// what was found, nil if nothing.
	try func(a *attack, target string, seed uint64) (*attempt, error)
	// command says that the family attacks the command.
	command bool
}

var families = []family{
	{"cancel", func(a *attack) []string {
		return slices.Concat(slices.Sorted(maps.Keys(heavy)), operators(a))
	}, tryCancel, false},
	{"limit", limitTargets, tryLimit, false},
	{"mutate", mutateTargets, tryMutate, false},
	{"extreme", operators, tryExtreme, false},
	{"external", func(*attack) []string { return slices.Sorted(maps.Keys(externalFiles)) }, tryExternal, false},
	{"decode", decodeTargets, tryDecode, true},
	{"slow", slowTargets, trySlow, true},
	{"flood", func(*attack) []string { return slices.Sorted(maps.Keys(floods)) }, tryFlood, true},
	{"pages", pageTargets, tryPages, true},
	{"signal", signalTargets, trySignal, true},
	{"writers", writerTargets, tryWriters, true},
	{"text", textTargets, tryText, true},
	{"poll", pollTargets, tryPoll, true},
	{"load", loadTargets, tryLoad, true},
}

// attempt is a model with its inputs.
type attempt struct {
	model *onnx.Model
	feed  map[string]tensor.Value
	text  string
}

var verbose = flag.Bool("v", false, "print what is measured")

type attack struct {
	out      string
	defs     map[string]*kit.Def
	seeds    opfuzz.Seeds
	suite    string
	findings int
	tries    map[string]int
	valid    map[string]int // tries whose model ran
	seen     map[string]int // findings per family and target

	root, scratch string     // of the module, and for files
	command       string     // path of cmd/onward
	servers       [3]*server // that families share: with tokens, without, with models of texts

	engines [2]string     // providers that mutate compares
	bits    int           // binary logarithm of the elements of the largest drawn cases of cancel
	budget  time.Duration // CPU time of a case of cancel
}

func main() {
	duration := flag.Duration("duration", time.Minute, "how long to attack")
	seed := flag.Uint64("seed", 1, "seed of the first case; later cases have the next numbers")
	only := flag.String("only", "", "only targets (operators, models) that match this regular expression")
	cases := flag.Int("cases", 0, "end after this many cases of each target (0: no limit)")
	out := flag.String("out", filepath.Join(os.TempDir(), "onward-attack"), "folder for the models of findings")
	command := flag.String("command", "", "the onward to attack (default: built from the module)")
	flag.Parse()
	if signal.Ignored(os.Interrupt) {
		// A shell that runs this in the background ignores it, and the commands would begin so.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	re, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	a, err := newAttack(*out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
	chosen := families
	if flag.NArg() > 0 {
		chosen = slices.DeleteFunc(slices.Clone(families), func(f family) bool {
			return !slices.Contains(flag.Args(), f.name)
		})
		if len(chosen) < flag.NArg() {
			fmt.Fprintf(os.Stderr, "attack: unknown family in %v, want %s\n", flag.Args(),
				strings.Join(names(), ", "))
			os.Exit(2)
		}
	}
	defer a.close()
	a.command = *command
	if a.command == "" && slices.ContainsFunc(chosen, func(f family) bool { return f.command }) {
		if err := a.build(); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
			os.Exit(1)
		}
	}
	exec.CrashOnPanic()
	debug.SetMemoryLimit(limit) // as a server would: garbage does not count for the engine's limit
	for _, f := range chosen {
		a.run(f, re, *seed, *cases, time.Now().Add(*duration/time.Duration(len(chosen))))
	}
	for _, f := range chosen {
		if len(f.targets(a)) == 0 {
			fmt.Printf("%s: left out, without the ONNX suite, which make suite fetches\n", f.name)
			continue
		}
		fmt.Printf("%s: %d cases, %d of them ran\n", f.name, a.tries[f.name], a.valid[f.name])
	}
	for _, s := range a.servers {
		if s != nil {
			fmt.Printf("onward serve: at most %d MiB, with --total-memory %d MiB\n", s.most>>20, totalMemory>>20)
		}
	}
	fmt.Printf("%d findings\n", a.findings)
	if a.findings > 0 {
		a.close()
		os.Exit(1)
	}
}

func names() []string {
	var r []string
	for _, f := range families {
		r = append(r, f.name)
	}
	return r
}

// close ends the servers and removes files.
func (a *attack) close() {
	for _, s := range a.servers {
		if s != nil {
			s.kill()
		}
	}
	os.RemoveAll(a.scratch)
}

func newAttack(out string) (*attack, error) {
	a := &attack{out: out, defs: map[string]*kit.Def{}, tries: map[string]int{}, valid: map[string]int{},
		seen:    map[string]int{},
		engines: [2]string{"reference", "cpu"}, bits: 24, budget: time.Second}
	if s, err := suite.Find(); err == nil {
		a.suite = s.Dir
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	a.root = root
	if a.scratch, err = os.MkdirTemp("", "attack"); err != nil {
		return nil, err
	}
	if a.seeds, err = opfuzz.Load(root, a.suite); err != nil {
		return nil, err
	}
	for _, d := range kit.All() {
		if d.Domain != "onward" {
			a.defs[kit.QualifiedName(d.Domain, d.Name)] = d
		}
	}
	return a, nil
}

// moduleRoot returns the folder of go.mod above the current one.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("found no go.mod above the current folder: run it in the module")
		}
	}
}

// run attacks all targets of a family in turns.
func (a *attack) run(f family, re *regexp.Regexp, seed uint64, cases int, end time.Time) {
	targets := slices.DeleteFunc(f.targets(a), func(t string) bool { return !re.MatchString(t) })
	if len(targets) == 0 {
		return
	}
	// Neighbours in the list are alike, and a short attack should meet all kinds.
	rand.New(rand.NewPCG(seed, hash(f.name))).Shuffle(len(targets), func(i, j int) {
		targets[i], targets[j] = targets[j], targets[i]
	})
	for n := 0; cases == 0 || n < cases; n++ {
		for _, t := range targets {
			if time.Now().After(end) {
				return
			}
			a.one(f, t, seed+uint64(n))
		}
	}
}

// endless is the time after which a case is reported that does not end, and the program with it.
const endless = 5 * time.Minute

func (a *attack) one(f family, target string, seed uint64) {
	a.tries[f.name]++
	repeat := fmt.Sprintf("  repeat: go run ./internal/testing/attack -seed %d -cases 1 -only '^%s$' %s\n", seed,
		regexp.QuoteMeta(target), f.name)
	stuck := time.AfterFunc(endless, func() {
		fmt.Printf("%s %s: the case has not ended after %v\n%s", f.name, target, endless, repeat)
		os.Exit(1)
	})
	defer stuck.Stop()
	at, err := protect(func() (*attempt, error) { return f.try(a, target, seed) })
	if at != nil {
		a.valid[f.name]++
	}
	if err == nil {
		return
	}
	a.findings++
	if a.seen[f.name+target]++; a.seen[f.name+target] > 3 {
		return // the others are likely the same fault
	}
	fmt.Printf("%s %s: %v\n", f.name, target, err)
	if at != nil && at.text != "" {
		fmt.Println("  " + strings.ReplaceAll(at.text, "\n", "\n  "))
	}
	fmt.Print(repeat)
	if at != nil && at.model != nil {
		if file, err := a.write(at, fmt.Sprintf("%s-%s-%d", f.name, strings.ReplaceAll(target, "/", "_"), seed)); err !=
			nil {
			fmt.Println("  the model was not written:", err)
		} else {
			fmt.Println("  model:", file)
		}
	}
}

// protect returns a panic as an error.
func protect(fn func() (*attempt, error)) (at *attempt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("PANIC: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// write stores a model and its tensors as NAME.onnx and NAME.npz, and returns
// arguments for onward run.
func (a *attack) write(at *attempt, name string) (string, error) {
	if err := os.MkdirAll(a.out, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(a.out, name+".onnx")
	if err := onnx.WriteFile(file, at.model, nil); err != nil {
		return "", err
	}
	var in tensor.NPZ
	for _, k := range slices.Sorted(maps.Keys(at.feed)) {
		t, ok := at.feed[k].(*tensor.Tensor)
		if !ok || in.Add(k, t) != nil {
			return file, nil // npz lacks the type; the seed repeats the case
		}
	}
	npz := filepath.Join(a.out, name+".npz")
	return file + " --inputs " + npz, tensor.WriteNPZFile(npz, &in, false)
}

// draw draws a case of an operator with about the given number of elements. It returns nil for an
// operator without cases.
func (a *attack) draw(name string, seed uint64, elements int) *opfuzz.Case {
	c := rapid.Custom(func(t *rapid.T) *opfuzz.Case { return opfuzz.Draw(t, a.defs[name], a.seeds) }).Example(int(seed))
	if c == nil {
		return nil
	}
	return c.Scale(seed, elements)
}

func operators(a *attack) []string {
	var r []string
	for name := range a.defs {
		r = append(r, name)
	}
	slices.Sort(r)
	return r
}
