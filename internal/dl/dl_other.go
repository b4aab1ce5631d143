//go:build !windows && !(((linux && (386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64)) || darwin) && !android && !ios && !faketime)

package dl

func load(string) (uintptr, error) { return 0, ErrUnsupported }

func symbol(uintptr, string) (uintptr, error) { return 0, ErrUnsupported }

func call(uintptr, []uintptr) uintptr { panic(ErrUnsupported) }

func callback(any) uintptr { return 0 }
