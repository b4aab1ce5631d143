//go:build ((linux && (386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64)) || darwin) && !android && !ios && !faketime

package dl

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/ebitengine/purego"
)

// SetEnv sets an environment variable for Go and for C. os.Setenv alone does not reach C in a
// program without cgo: the C library keeps the environment that the process started with.
func SetEnv(name, value string) error {
	setenv, err := purego.Dlsym(purego.RTLD_DEFAULT, "setenv")
	if err != nil {
		return fmt.Errorf("the C library's setenv was not found: %w", err)
	}
	const overwrite = 1
	if r := int32(Call(setenv, uintptr(unsafe.Pointer(CString(name))), uintptr(unsafe.Pointer(CString(value))),
		overwrite)); r != 0 {
		return fmt.Errorf("the C library's setenv of %s returned %d", name, r)
	}
	return os.Setenv(name, value)
}
