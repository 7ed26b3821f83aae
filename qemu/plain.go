// SPDX-License-Identifier: Apache-2.0

package qemu

import "github.com/paracuda/paracuda/internal/plain"

// plainError is an error with a text of QEMU's.
type plainError struct{ error }

func (e plainError) Error() string { return plain.Text(e.error.Error()) }
func (e plainError) Unwrap() error { return e.error }
