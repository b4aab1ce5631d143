//go:build ((linux && (386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64)) || darwin) && !android && !ios && !faketime

package dl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ebitengine/purego"
)

func load(path string) (uintptr, error) {
	if filepath.Base(path) != path {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return 0, ErrAbsent
		}
	}
	// RTLD_NOW binds all symbols, so that a missing one is an error here instead of a crash later.
	// RTLD_LOCAL allows two releases of a library to be open at the same time.
	defer sameThread()()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(handle uintptr, name string) (uintptr, error) {
	defer sameThread()()
	return purego.Dlsym(handle, name)
}

// sameThread keeps the goroutine on its thread until the function that it returns is called. The C
// library has an error message for each thread, and purego reads it with a second call.
func sameThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func call(fn uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

func callback(fn any) uintptr { return purego.NewCallback(fn) }
