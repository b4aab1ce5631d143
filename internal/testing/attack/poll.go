package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward/onnx"
)

// polled is a repository that changes while a server polls it. Its model p is one of two variants,
// whose files have the same sizes and times.
type polled struct {
	r        *rand.Rand
	repo     string
	variants [2]string // folders of the model
	last     int       // the variant that is in the repository
	n        int       // changes
}

// changes lists how a repository changes. put replaces the model by a variant.
var changes = map[string]struct {
	first  func(p *polled) error // before the server starts; nil: the model is a copy of a variant
	put    func(p *polled, variant int) error
	absent bool // the model is not in the repository now and then
}{
	"files": {nil, func(p *polled, v int) error { return p.replace("p/1/model.onnx", v, "1/model.onnx") }, false},
	"flat files": {func(p *polled) error { return p.replace("p.onnx", 0, "1/model.onnx") },
		func(p *polled, v int) error { return p.replace("p.onnx", v, "1/model.onnx") }, false},
	"links": {func(p *polled) error { return p.link(0) }, (*polled).link, false},
	"folders": {nil, func(p *polled, v int) error {
		old, next := p.scratch("old"), p.scratch("new")
		if err := p.copy(next, v); err != nil {
			return err
		}
		err := os.Rename(filepath.Join(p.repo, "p"), old)
		time.Sleep(time.Duration(p.r.IntN(3)) * time.Millisecond)
		return errors.Join(err, os.Rename(next, filepath.Join(p.repo, "p")), os.RemoveAll(old))
	}, true},
	"versions": {func(p *polled) error {
		folder := filepath.Join(p.repo, "p")
		err := p.copy(folder, 0)
		for n := range 1000 + p.r.IntN(2000) {
			err = errors.Join(err, os.CopyFS(filepath.Join(folder, strconv.Itoa(n+2)),
				os.DirFS(filepath.Join(p.variants[0], "1"))))
		}
		p.n = 10_000
		return err
	}, func(p *polled, v int) error { // a new version, which is the largest number
		next := p.scratch("new")
		return errors.Join(p.copy(next, v),
			os.Rename(filepath.Join(next, "1"), filepath.Join(p.repo, "p", strconv.Itoa(p.n))), os.RemoveAll(next))
	}, false},
}

// scratch returns a new path in the file system of the repository that the server does not serve.
func (p *polled) scratch(name string) string {
	p.n++
	return filepath.Join(p.repo, fmt.Sprintf(".%s-%d", name, p.n))
}

// replace renames a copy of a variant's file over a file.
func (p *polled) replace(name string, v int, file string) error {
	next := p.scratch("new")
	return errors.Join(os.Link(filepath.Join(p.variants[v], file), next), os.Rename(next, filepath.Join(p.repo, name)))
}

// link makes the model a link to a variant's folder.
func (p *polled) link(v int) error {
	next := p.scratch("new")
	return errors.Join(os.Symlink(p.variants[v], next), os.Rename(next, filepath.Join(p.repo, "p")))
}

// copy makes links to a variant's files in a new folder.
func (p *polled) copy(dir string, v int) error {
	err := os.MkdirAll(filepath.Join(dir, "1"), 0o777)
	for _, f := range []string{"config.pbtxt", "labels.txt", "1/model.onnx"} {
		err = errors.Join(err, os.Link(filepath.Join(p.variants[v], f), filepath.Join(dir, f)))
	}
	return err
}

// answersOf lists what the variants answer: number, index and label of the larger output.
var answersOf = [2]string{"-1.000000:0:", "4.000000:1:"}

// write writes the variants.
func (p *polled) write(dir string, labels bool) error {
	made := time.Now().Add(-time.Hour)
	for i, factor := range []float32{-1, 2} {
		p.variants[i] = filepath.Join(dir, strconv.Itoa(i))
		b := onnx.NewModel("p").Opset("", 17)
		b.IRVersion(8).Initializer("c", []float32{factor}, 1)
		b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2).Node("Mul", []string{"x", "c"}, []string{"y"})
		m, err := b.Model()
		if err != nil {
			return err
		}
		label := "same"
		if labels {
			label = fmt.Sprint("of ", i)
		}
		for name, text := range map[string]string{"labels.txt": label + "\n" + label + "\n",
			"config.pbtxt": `output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "labels.txt" }`} {
			err = errors.Join(err, os.MkdirAll(filepath.Join(p.variants[i], "1"), 0o777),
				os.WriteFile(filepath.Join(p.variants[i], name), []byte(text), 0o666))
		}
		err = errors.Join(err, onnx.WriteFile(filepath.Join(p.variants[i], "1/model.onnx"), m, nil))
		for _, f := range []string{"config.pbtxt", "labels.txt", "1/model.onnx", "1", "."} {
			err = errors.Join(err, os.Chtimes(filepath.Join(p.variants[i], f), made, made))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// junk lists folders of models that cannot be loaded.
var junk = map[string]func(p *polled, dir string) error{
	"unreadable": func(p *polled, dir string) error {
		return errors.Join(p.copy(dir, 0), os.Remove(filepath.Join(dir, "1/model.onnx")),
			os.WriteFile(filepath.Join(dir, "1/model.onnx"), []byte("a"), 0))
	},
	"loops": func(p *polled, dir string) error {
		err := os.MkdirAll(filepath.Join(dir, "1"), 0o777)
		for i := range 1 + p.r.IntN(20) {
			err = errors.Join(err, os.Symlink(".", filepath.Join(dir, "1", fmt.Sprint(i))))
		}
		return errors.Join(err, os.Symlink("model.onnx", filepath.Join(dir, "1/model.onnx")),
			os.Symlink("2", filepath.Join(dir, "2")), os.Symlink("..", filepath.Join(dir, "3")))
	},
	"huge configuration": func(p *polled, dir string) error {
		err := os.MkdirAll(filepath.Join(dir, "1"), 0o777)
		name := filepath.Join(dir, "config.pbtxt")
		if p.r.IntN(2) == 0 {
			return errors.Join(err, os.WriteFile(name, nil, 0o666), os.Truncate(name, 1<<40))
		}
		units := []string{"input { } ", "parameters { key: \"a\" value { } } ", "# ", "model_warmup { name: \"a\" } "}
		unit := units[p.r.IntN(len(units))]
		return errors.Join(err, os.WriteFile(name, []byte(strings.Repeat(unit, 1<<20/len(unit))), 0o666))
	},
	"huge model": func(p *polled, dir string) error {
		name := filepath.Join(dir, "1/model.onnx")
		return errors.Join(os.MkdirAll(filepath.Join(dir, "1"), 0o777), os.WriteFile(name, []byte("\x08\x08"), 0o666),
			os.Truncate(name, 1<<40))
	},
	"huge labels": func(p *polled, dir string) error {
		name := filepath.Join(dir, "labels.txt")
		return errors.Join(p.copy(dir, 0), os.Remove(name), os.WriteFile(name, nil, 0o666), os.Truncate(name, 1<<40))
	},
	"folder as model": func(p *polled, dir string) error {
		return os.MkdirAll(filepath.Join(dir, "1/model.onnx/1"), 0o777)
	},
}

func pollTargets(*attack) []string { return slices.Sorted(maps.Keys(changes)) }

// tryPoll replaces a model by one of two variants for a second, up to some hundred times, while
// folders that cannot be loaded come and go. Every answer is that of a variant, and the one that is
// there in the end is served then.
func tryPoll(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	change := changes[target]
	dir, err := os.MkdirTemp(a.scratch, "polled")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p := &polled{r: r, repo: filepath.Join(dir, "repository")}
	labels := target == "links" || target == "folders"
	if err := errors.Join(repository(p.repo), p.write(dir, labels)); err != nil {
		return nil, err
	}
	if change.first != nil {
		err = change.first(p)
	} else {
		err = p.copy(filepath.Join(p.repo, "p"), 0)
	}
	if err != nil {
		return nil, err
	}
	s, err := a.serve(p.repo, true, "--poll", (time.Millisecond << r.IntN(6)).String())
	if err != nil {
		return nil, err
	}
	defer s.kill()
	end, rate := time.Now().Add(time.Second), time.Duration(r.IntN(100))*time.Millisecond/10+time.Millisecond
	want := func(v int) string {
		answer := answersOf[v] + "same"
		if target == "flat files" { // without a configuration
			answer = answersOf[v]
		}
		if labels {
			answer = answersOf[v] + fmt.Sprint("of ", v)
		}
		return strings.TrimSuffix(answer, ":")
	}
	var wait sync.WaitGroup
	errs := make([]error, 3)
	good := 0
	for i := range 2 {
		wait.Go(func() {
			c := s.client(false)
			defer c.CloseIdleConnections()
			for time.Now().Before(end) && errs[i] == nil {
				answer, code, err := s.classify(c)
				switch {
				case err == nil && (answer == want(0) || answer == want(1)):
					good += 1 - i
				case err == nil && change.absent && (code == 404 || code == 400 || code == 503):
				default:
					errs[i] = fmt.Errorf("the answer is %d %q %v, want %q or %q", code, answer, err, want(0), want(1))
				}
			}
		})
	}
	for n := 0; time.Now().Before(end) && err == nil; n++ {
		p.last = r.IntN(2)
		if err = change.put(p, p.last); err == nil && n%8 == 0 {
			err = p.throw()
		}
		time.Sleep(time.Duration(r.Int64N(int64(2 * rate))))
	}
	wait.Wait()
	time.Sleep(50 * time.Millisecond) // the clock of files ticks every 10 ms at least
	if err = errors.Join(err, change.put(p, p.last)); err != nil {
		return nil, err
	}
	c := s.client(false)
	defer c.CloseIdleConnections()
	for deadline, settled := time.Now().Add(patience()), 0; settled < 10; time.Sleep(10 * time.Millisecond) {
		answer, code, err := s.classify(c)
		if settled++; err != nil || answer != want(p.last) {
			settled = 0
		}
		if settled == 0 && time.Now().After(deadline) {
			errs[2] = fmt.Errorf("long after the last change the answer is %d %q %v, want %q", code, answer, err,
				want(p.last))
			break
		}
	}
	if *verbose {
		fmt.Printf("%s: %d changes, %d answers, peak %d MiB\n", target, p.n, good, peak(s.cmd.Process.Pid)>>20)
	}
	return &attempt{}, errors.Join(append(errs, s.check())...)
}

// throw replaces a folder by one that cannot be loaded.
func (p *polled) throw() error {
	kinds := slices.Sorted(maps.Keys(junk))
	next, dir := p.scratch("junk"), filepath.Join(p.repo, fmt.Sprint("junk", p.r.IntN(4)))
	return errors.Join(junk[kinds[p.r.IntN(len(kinds))]](p, next), os.RemoveAll(dir), os.Rename(next, dir))
}

// classify asks the model p for the label of its larger output.
func (s *server) classify(c *http.Client) (answer string, code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	code, text, err := send(ctx, c, "http://"+s.http+"/v2/models/p/infer", strings.NewReader(`{"inputs":[{"name":"x",`+
		`"shape":[2],"datatype":"FP32","data":[1,2]}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`), nil)
	var m struct{ Outputs []struct{ Data []string } }
	if err != nil || json.Unmarshal([]byte(text), &m) != nil || len(m.Outputs) != 1 || len(m.Outputs[0].Data) != 1 {
		return text, code, err
	}
	return m.Outputs[0].Data[0], code, nil
}
