//go:build !unix

package backend_test

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
