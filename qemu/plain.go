// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"strings"
	"unicode"
)

// plain is a text of QEMU's without what could command a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// plainError is an error with a text of QEMU's.
type plainError struct{ error }

func (e plainError) Error() string { return plain(e.error.Error()) }
func (e plainError) Unwrap() error { return e.error }
