//go:build !unix

package pipeline

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
