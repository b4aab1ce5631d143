//go:build !windows && !((darwin || freebsd || linux || netbsd) && !android && !faketime)

package dl

func load(string) (uintptr, error) { return 0, ErrUnsupported }

func symbol(uintptr, string) (uintptr, error) { return 0, ErrUnsupported }

func call(uintptr, []uintptr) uintptr { panic(ErrUnsupported) }
