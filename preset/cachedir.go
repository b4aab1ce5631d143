package preset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/onward-ml/onward/onnx"
)

// cacheFolder creates a folder below dir, or below the user's cache folder if dir is
// empty. A folder that other users may write is an error, since its files cannot be
// trusted.
func cacheFolder(dir, kind string, below ...string) (string, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "onward", kind)
	}
	dir, err := filepath.Abs(filepath.Join(append([]string{dir}, below...)...))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fmt.Errorf("%q is not a folder", dir)
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%q can be changed by other users (mode %v): want 0700", dir, st.Mode().Perm())
	}
	return dir, nil
}

// modelHash returns the SHA-256 of a model and its external data in hexadecimal.
func modelHash(model Model, m *onnx.Model) (string, error) {
	h := sha256.New()
	switch x := model.Form().(type) {
	case string:
		f, err := os.Open(x)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := io.Copy(h, f); err != nil {
			return "", err
		}
	case []byte:
		h.Write(x)
	default:
		data, err := m.Marshal()
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	if err := hashExternal(h, m, m.Graph, 0); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashExternal writes the external data of a graph's initializers to w.
func hashExternal(w io.Writer, m *onnx.Model, g *onnx.Graph, depth int) error {
	if g == nil || depth > 100 {
		return nil
	}
	for _, t := range g.Initializers {
		if t == nil || t.DataLocation != onnx.LocationExternal {
			continue
		}
		v, err := m.DecodeTensor(t)
		if err != nil {
			return fmt.Errorf("initializer %q: %w", t.Name, err)
		}
		w.Write(v.Bytes())
	}
	for _, n := range g.Nodes {
		for _, sub := range n.Subgraphs() {
			if err := hashExternal(w, m, sub, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
