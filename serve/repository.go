package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/regular"
	"github.com/onward-ml/onward/serve/inference"
)

// Model is a model outside of the repository. It has one version, 1.
type Model struct {
	Name string // under which requests find it
	Path string // ONNX file, or model folder
	Data []byte // the file's bytes instead of Path; must not change
}

// entry is a model of the repository or of Options.Models.
type entry struct {
	versions map[int64]*version     // those that are served
	failed   map[int64]string       // why other versions were not loaded; key 0 holds the error of the model as a whole
	wanted   bool                   // false after an unload
	override *inference.ModelConfig // instead of the configuration file; nil: that file
	missing  string                 // the model without which an ensemble was not loaded
}

// acquire returns a version of a model for a request, which must release it. An empty version
// stands for the largest one.
func (s *Server) acquire(model, number string) (*version, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.models[model]
	if e == nil {
		return nil, errorf(NotFound, "Request for unknown model: '%s' is not found", shorten(model))
	}
	n, err := parseVersion(number)
	if err != nil {
		return nil, &Error{InvalidArgument, err}
	}
	if n == 0 {
		for k := range e.versions {
			n = max(n, k)
		}
	}
	v := e.versions[n]
	if v == nil && n == 0 {
		return nil, errorf(Unavailable, "Request for unknown model: '%s' has no available versions", model)
	} else if v == nil {
		return nil, errorf(NotFound, "Request for unknown model: '%s' version %d is not at ready state", model, n)
	}
	v.users.Add(1)
	return v, nil
}

// parseVersion returns the number of a version, and 0 for "".
func parseVersion(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("model version %.32q is not a positive number", s)
	}
	return n, nil
}

// served returns the numbers of the served versions of a model, ascending.
func (s *Server) served(model string) []int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var l []int64
	if e := s.models[model]; e != nil {
		for n := range e.versions {
			l = append(l, n)
		}
	}
	slices.Sort(l)
	return l
}

// all returns all served versions, in the order of names and numbers. They must be released.
func (s *Server) all() []*version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var l []*version
	for _, e := range s.models {
		for _, v := range e.versions {
			v.users.Add(1)
			l = append(l, v)
		}
	}
	slices.SortFunc(l, func(a, b *version) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.number, b.number))
	})
	return l
}

// index returns the models of the repository and their state.
func (s *Server) index(onlyReady bool) ([]*inference.RepositoryIndexResponse_ModelIndex, error) {
	found, err := s.list()
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name := range s.models {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	var l []*inference.RepositoryIndexResponse_ModelIndex
	for _, name := range found {
		e := s.models[name]
		if e == nil || len(e.versions)+len(e.failed) == 0 {
			if !onlyReady {
				m := &inference.RepositoryIndexResponse_ModelIndex{Name: name}
				if e != nil && !e.wanted {
					m.State, m.Reason = "UNAVAILABLE", "unloaded"
				}
				l = append(l, m)
			}
			continue
		}
		states := map[int64]*inference.RepositoryIndexResponse_ModelIndex{}
		for n := range e.versions {
			states[n] = &inference.RepositoryIndexResponse_ModelIndex{State: "READY"}
		}
		for n, reason := range e.failed {
			if states[n] == nil && !onlyReady {
				states[n] = &inference.RepositoryIndexResponse_ModelIndex{State: "UNAVAILABLE", Reason: reason}
			}
		}
		var numbers []int64
		for n := range states {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			m := states[n]
			m.Name = name
			if n > 0 {
				m.Version = strconv.FormatInt(n, 10)
			}
			l = append(l, m)
		}
	}
	return l, nil
}

// flat returns the path of a model of the repository that is a file without a version: MODEL.onnx
// in the repository, or model.onnx in the model's folder; "" if there is none.
func (s *Server) flat(name, file string) string {
	for _, path := range []string{filepath.Join(s.repo, name+".onnx"), filepath.Join(s.repo, name, file)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// list returns the names of the models in the repository and in Options.Models.
func (s *Server) list() ([]string, error) {
	var l []string
	for _, m := range s.opts.Models {
		l = append(l, m.Name)
	}
	if s.repo == "" {
		return l, nil
	}
	entries, err := os.ReadDir(s.repo)
	if err != nil {
		return nil, errorf(Internal, "model repository: %w", err)
	}
	found := map[string]bool{}
	for _, name := range l {
		found[name] = true
	}
	skipped := map[string]bool{}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(s.repo, e.Name())) // follows links: mounted volumes have them
		if err != nil {
			continue
		}
		name, flat := strings.CutSuffix(e.Name(), ".onnx")
		if info.IsDir() {
			name = e.Name()
		} else if !flat || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasPrefix(e.Name(), ".") || checkName(name) != nil {
			skipped[e.Name()] = true
		} else if !found[name] {
			found[name] = true
			l = append(l, name)
		}
	}
	s.skip(skipped)
	return l, nil
}

// skip logs once which entries of the repository cannot be models.
func (s *Server) skip(names map[string]bool) {
	s.mu.Lock()
	before := s.skipped
	s.skipped = names
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !before[name] {
			s.log.Info("not a model: its name begins with a dot, or is not the name of a model", "entry", name)
		}
	}
}

// places returns in how many places a model is: Options.Models, a folder and a file.
func (s *Server) places(name string) (n int) {
	for _, m := range s.opts.Models {
		if m.Name == name {
			n++
		}
	}
	if s.repo == "" || strings.HasPrefix(name, ".") {
		return n
	}
	if info, err := os.Stat(filepath.Join(s.repo, name)); err == nil && info.IsDir() {
		n++
	}
	if info, err := os.Stat(filepath.Join(s.repo, name+".onnx")); err == nil && info.Mode().IsRegular() {
		n++
	}
	return n
}

// load loads a model or, if its files have changed, loads it again. The versions that are
// served go on until the new ones are ready, also if those fail. override replaces the
// configuration file.
func (s *Server) load(ctx context.Context, name string, override *inference.ModelConfig) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.tried = map[string]bool{}
	defer s.retryEnsembles(ctx) // their errors are logged
	return s.loadLocked(ctx, name, override)
}

// loadLocked loads a model, and again the ensembles that contain it.
func (s *Server) loadLocked(ctx context.Context, name string, override *inference.ModelConfig) error {
	changed, err := s.loadOne(ctx, name, override)
	if changed && err == nil {
		s.reloadEnsembles(ctx, name)
	}
	return err
}

// loadOne loads a model, and reports whether its versions have changed.
func (s *Server) loadOne(ctx context.Context, name string, override *inference.ModelConfig) (changed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := checkName(name); err != nil {
		return false, &Error{InvalidArgument, err}
	}
	s.tried[name] = true
	if s.places(name) == 0 {
		return false, errorf(NotFound, "failed to load '%s', failed to poll from model repository: no such model",
			shorten(name))
	}
	start := time.Now()
	old := map[int64]*version{}
	s.mu.RLock()
	if e := s.models[name]; e != nil {
		for n, v := range e.versions {
			old[n] = v
		}
	}
	s.mu.RUnlock()
	fresh, failed, errs := s.openVersions(ctx, name, override, old)
	if len(fresh) == 0 && len(errs) > 0 {
		fresh = old
	}
	err = errors.Join(errs...)
	e := &entry{versions: fresh, failed: failed, wanted: true, override: override}
	if m := new(missingModel); errors.As(err, &m) {
		e.missing = m.model
	}
	s.mu.Lock()
	s.models[name] = e
	s.mu.Unlock()
	for n, v := range fresh {
		changed = changed || old[n] != v
	}
	for n, v := range old {
		if fresh[n] != v {
			changed = true
			s.retire(v, fresh[n] == nil)
		}
	}
	if err != nil {
		s.log.Error("model cannot be loaded", "model", name, "error", err)
		return changed, errorf(Internal, "failed to load '%s': %w", name, err)
	}
	if changed {
		var numbers []int64
		for n := range fresh {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		s.log.Info("model loaded", "model", name, "versions", numbers, "ms", time.Since(start).Milliseconds())
	}
	return changed, nil
}

// retire closes a version in the background, after its requests. forget drops its metrics.
func (s *Server) retire(v *version, forget bool) {
	s.retired.Go(func() {
		if err := v.retire(); err != nil {
			s.log.Warn("model cannot be closed", "model", v.model, "version", v.number, "error", err)
		}
		if forget {
			s.metrics.forget(v)
		}
	})
}

// lock waits until no other call loads or unloads models: one that loads can take long.
func (s *Server) lock(ctx context.Context) error {
	select {
	case s.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) unlock() { <-s.loading }

// unload stops serving a model.
func (s *Server) unload(ctx context.Context, name string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.unloadLocked(name)
}

func (s *Server) unloadLocked(name string) error {
	s.mu.Lock()
	e := s.models[name]
	if e == nil {
		s.mu.Unlock()
		return errorf(NotFound, "failed to unload '%.255s': no such model is loaded", name)
	}
	s.models[name] = &entry{}
	s.mu.Unlock()
	for _, v := range e.versions {
		s.retire(v, true)
	}
	if len(e.versions) > 0 {
		s.log.Info("model unloaded", "model", name)
	}
	return nil
}

// Poll looks for changes of the repository once: it loads new and changed models and unloads
// those whose folders are gone. Models that a request has unloaded stay unloaded.
func (s *Server) Poll(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	found, err := s.list()
	if err != nil {
		return err
	}
	var errs []error
	s.mu.RLock()
	var gone []string
	for name, e := range s.models {
		if !slices.Contains(found, name) {
			gone = append(gone, name)
		} else if !e.wanted {
			found = slices.DeleteFunc(found, func(n string) bool { return n == name })
		}
	}
	s.mu.RUnlock()
	for _, name := range gone {
		if err := s.unloadLocked(name); err != nil {
			errs = append(errs, err)
		}
		s.mu.Lock()
		delete(s.models, name)
		s.mu.Unlock()
		delete(s.seen, name)
	}
	s.tried = map[string]bool{}
	for _, name := range found {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if s.tried[name] || !s.changed(name) { // tried: for an ensemble
			continue
		}
		if err := s.loadLocked(ctx, name, nil); err != nil {
			errs = append(errs, err)
			if errors.Is(err, onward.ErrMemoryBudget) || errors.Is(err, errChanging) {
				delete(s.seen, name) // the next poll tries again
			}
		}
	}
	return errors.Join(append(errs, s.retryEnsembles(ctx))...)
}

// candidate is a version that the configuration selects.
type candidate struct {
	number    int64
	path      string
	data      []byte
	dir       string
	signature string
	config    *inference.ModelConfig
}

// candidates returns the versions of a model that are to be served.
// memory is what parsing the configuration takes.
func (s *Server) candidates(name string, override *inference.ModelConfig, memory *reservation) ([]candidate, error) {
	if s.places(name) > 1 {
		return nil, fmt.Errorf(
			"model %q is both in the repository and given by its file, or is twice in the repository", name)
	}
	cfg := override
	for _, m := range s.opts.Models {
		if m.Name == name {
			if cfg == nil {
				cfg = new(inference.ModelConfig)
			}
			if err := checkConfig(cfg, name); err != nil {
				return nil, fmt.Errorf("configuration: %w", err)
			}
			return []candidate{{number: 1, path: m.Path, data: m.Data, signature: signature(modelFile(m.Path)...) +
				configHash(cfg), config: cfg}}, nil
		}
	}
	dir := filepath.Join(s.repo, name)
	if cfg == nil {
		text, err := readConfig(filepath.Join(dir, "config.pbtxt"))
		if err != nil {
			return nil, err
		}
		if err := memory.become(configCost * int64(len(text))); err != nil {
			return nil, fmt.Errorf("config.pbtxt: %w", err)
		}
		if cfg, err = parseConfig(text); err != nil {
			return nil, fmt.Errorf("config.pbtxt: %w", err)
		}
	}
	if err := checkConfig(cfg, name); err != nil {
		return nil, fmt.Errorf("config.pbtxt: %w", err)
	}
	file := cmp.Or(cfg.DefaultModelFilename, "model.onnx")
	numbers, err := versionsIn(dir)
	if len(numbers) == 0 {
		path := s.flat(name, file)
		if IsModelFolder(dir) {
			path = dir
		}
		if path != "" {
			return []candidate{{number: 1, path: path, dir: dir, signature: signature(append(modelFile(path), dir)...) +
				configHash(cfg), config: cfg}}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 && cfg.EnsembleScheduling != nil {
		numbers = []int64{1} // an ensemble has no files, and many tools keep no empty folders
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("model folder %s has no version folder, such as 1, and no %s", dir, file)
	}
	if numbers, err = selectVersions(cfg.VersionPolicy, numbers); err != nil {
		return nil, err
	}
	var l []candidate
	for _, n := range numbers {
		vdir := filepath.Join(dir, strconv.FormatInt(n, 10))
		paths := []string{vdir, filepath.Join(dir, initialStates)}
		for _, o := range cfg.Output {
			if o.LabelFilename != "" && filepath.IsLocal(o.LabelFilename) {
				paths = append(paths, filepath.Join(dir, o.LabelFilename))
			}
		}
		l = append(l, candidate{number: n, path: filepath.Join(vdir, file), dir: dir,
			signature: signature(paths...) + configHash(cfg), config: cfg})
	}
	return l, nil
}

func readConfig(path string) ([]byte, error) {
	f, _, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if len(text) > maxConfigSize {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxConfigSize)
	}
	return text, err
}

// versionsIn returns the numbers that are folders of a model, ascending.
func versionsIn(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var l []int64
	for _, e := range entries {
		n, err := parseVersion(e.Name())
		if err != nil || n == 0 {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.IsDir() {
			l = append(l, n)
		}
	}
	slices.Sort(l)
	return l, nil
}

// selectVersions applies a version policy. The default is the latest version.
func selectVersions(p *inference.ModelVersionPolicy, have []int64) ([]int64, error) {
	switch x := p.GetPolicyChoice().(type) {
	case *inference.ModelVersionPolicy_All_:
		return have, nil
	case *inference.ModelVersionPolicy_Specific_:
		for _, n := range x.Specific.Versions {
			if !slices.Contains(have, n) {
				return nil, fmt.Errorf("version_policy wants version %d, but the model has %v", n, have)
			}
		}
		l := slices.Clone(x.Specific.Versions)
		slices.Sort(l)
		return slices.Compact(l), nil
	case *inference.ModelVersionPolicy_Latest_:
		return have[max(0, len(have)-int(min(x.Latest.NumVersions, 1<<20))):], nil
	}
	return have[len(have)-1:], nil
}
