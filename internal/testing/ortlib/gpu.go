package ortlib

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/testing/store"
)

// GPUVersion is the release of ONNX Runtime with CUDA and TensorRT that FetchGPU fetches.
const GPUVersion = "1.29.0"

const (
	gpuArtifact = "com.microsoft.onnxruntime:onnxruntime_gpu:" + GPUVersion
	gpuSum      = "fe39a98c499fc9be3944dd2bf2fb77d7dc5f152668bf95d8beb1c3d7b22f2a89"
	// Not onnxruntime-*, which the default search of provider/ort would find.
	gpuCache = "gpu-onnxruntime-" + GPUVersion
	inJar    = "ai/onnxruntime/native/linux-x64/"
)

// gpuParts are the libraries in the jar that are needed to run on a GPU.
var gpuParts = []string{"libonnxruntime.so", "libonnxruntime_providers_shared.so", "libonnxruntime_providers_cuda.so", "libonnxruntime_providers_tensorrt.so"}

// FetchGPU returns the path and the source of ONNX Runtime's library with its CUDA and
// TensorRT providers. It tries, in order: ONWARD_ORT_LIBRARY, a complete copy in the cache,
// jar if it is not empty, the Maven artifact by mvn. The CUDA and TensorRT libraries
// themselves are not included.
func FetchGPU(ctx context.Context, jar string) (lib, source string, err error) {
	if os.Getenv(Env) != "" {
		lib, err = Find()
		return lib, Env, err
	}
	if at := runtime.GOOS + "/" + runtime.GOARCH; at != "linux/amd64" {
		return "", "", fmt.Errorf("%w: %s is fetched for linux/amd64, not for %s; set %s to its path", ErrAbsent, gpuArtifact, at, Env)
	}
	dir, err := store.Path(gpuCache)
	if err != nil {
		return "", "", err
	}
	lib = filepath.Join(dir, gpuParts[0])
	if r, err := store.Verify(dir); err == nil && r.Archive == gpuSum {
		return lib, r.Source + ", cached", nil
	}
	if jar == "" {
		tmp, err := os.MkdirTemp("", "onward-maven-")
		if err != nil {
			return "", "", err
		}
		defer os.RemoveAll(tmp)
		if _, err := store.Run(ctx, tmp, "mvn", "-q", "-B", "dependency:copy", "-Dartifact="+gpuArtifact, "-DoutputDirectory="+tmp); err != nil {
			return "", "", fmt.Errorf("fetch %s: %w", gpuArtifact, err)
		}
		jar = filepath.Join(tmp, "onnxruntime_gpu-"+GPUVersion+".jar")
	}
	b, err := store.CheckFile(jar, gpuSum)
	if err != nil {
		return "", "", err
	}
	r, err := store.Install(dir, "", func(into string) (store.Record, error) {
		return store.Record{Source: "Maven artifact " + gpuArtifact, Version: GPUVersion, Archive: gpuSum}, unpackJar(b, into)
	})
	return lib, r.Source, err
}

func unpackJar(jar []byte, into string) error {
	var found []string
	_, err := store.ExtractZipAs(jar, into, func(name string) (string, bool) {
		rel, ok := strings.CutPrefix(name, inJar)
		ok = ok && path.Base(rel) == rel && slices.Contains(gpuParts, rel)
		if ok {
			found = append(found, rel)
		}
		return rel, ok
	})
	if err == nil && len(found) != len(gpuParts) {
		err = errors.New("the jar contains only " + strings.Join(found, ", ") + " of " + strings.Join(gpuParts, ", "))
	}
	return err
}
