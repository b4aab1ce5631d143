package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/serve/inference"
)

// missingModel is the error for an ensemble one of whose models is not served.
type missingModel struct {
	model string
	err   error
}

func (e *missingModel) Error() string { return e.err.Error() }
func (e *missingModel) Unwrap() error { return e.err }

// loadSteps loads the models of an ensemble that are not served. s.loading is held.
func (s *Server) loadSteps(ctx context.Context, c *inference.ModelConfig) error {
	for _, x := range c.EnsembleScheduling.GetStep() {
		if len(s.served(x.ModelName)) > 0 {
			continue
		}
		if slices.Contains(s.stack, x.ModelName) {
			return fmt.Errorf("ensembles refer to each other: %s → %s", strings.Join(s.stack, " → "), x.ModelName)
		}
		if len(s.stack) > maxNested {
			return tooNested(s.stack[0])
		}
		err := fmt.Errorf("model '%s' cannot be loaded", x.ModelName)
		if !s.tried[x.ModelName] {
			err = s.loadLocked(ctx, x.ModelName, nil)
		}
		if err != nil {
			return &missingModel{x.ModelName, err}
		}
	}
	return nil
}

// stepsOf returns the models of an ensemble that are served.
func (s *Server) stepsOf(name string) (models []string) {
	v, err := s.acquire(name, "")
	if err != nil {
		return nil
	}
	defer v.release()
	for _, x := range v.config.EnsembleScheduling.GetStep() {
		if !slices.Contains(models, x.ModelName) && len(s.served(x.ModelName)) > 0 {
			models = append(models, x.ModelName)
		}
	}
	return models
}

// stepsSignature returns a hash of the signatures of the models of an ensemble, so that the
// ensemble is opened again when one of them changes.
func (s *Server) stepsSignature(c *inference.ModelConfig) string {
	h := sha256.New()
	for _, x := range c.EnsembleScheduling.GetStep() {
		for _, n := range s.served(x.ModelName) {
			if v, err := s.acquire(x.ModelName, strconv.FormatInt(n, 10)); err == nil {
				fmt.Fprintf(h, "%q\n", v.signature)
				v.release()
			}
		}
	}
	return string(h.Sum(nil))
}

// reloadEnsembles checks the ensembles of which a model is part, after it has been loaded anew:
// each once, after those that it contains. s.loading is held.
func (s *Server) reloadEnsembles(ctx context.Context, model string) {
	depths, seen := map[string]int{}, map[*version]int{}
	for _, v := range s.all() {
		if v.ensemble != nil && !slices.Contains(s.stack, v.model) {
			depths[v.model] = max(depths[v.model], v.depth(seen))
		}
		v.release()
	}
	reloaded := map[string]bool{model: true}
	for _, name := range slices.SortedFunc(maps.Keys(depths), func(a, b string) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), cmp.Compare(a, b))
	}) {
		s.mu.RLock()
		e := s.models[name]
		needed := false
		for _, v := range e.versions {
			needed = needed || v.ensemble != nil && slices.ContainsFunc(v.ensemble.steps,
				func(x *ensembleStep) bool { return reloaded[x.model] })
		}
		s.mu.RUnlock()
		if !needed {
			continue
		}
		changed, err := s.loadOne(ctx, name, e.override)
		if err != nil {
			s.log.Warn("an ensemble no longer fits one of its models", "ensemble", name, "model", model, "error", err)
		}
		reloaded[name] = changed
	}
}

// retryEnsembles loads the ensembles that were not loaded because a model was missing that is
// served now. s.loading is held.
func (s *Server) retryEnsembles(ctx context.Context) error {
	var errs []error
	for again := true; again; {
		again = false
		retry := map[string]*inference.ModelConfig{}
		s.mu.RLock()
		for name, e := range s.models {
			if m := s.models[e.missing]; e.wanted && m != nil && len(m.versions) > 0 {
				retry[name] = e.override
			}
		}
		s.mu.RUnlock()
		for _, name := range slices.Sorted(maps.Keys(retry)) {
			err := s.loadLocked(ctx, name, retry[name])
			if again = again || err == nil; err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// tooNested returns the error for an ensemble that contains too many others.
func tooNested(name string) error {
	return fmt.Errorf("ensemble '%s' contains ensembles in more than %d levels", name, maxNested)
}
