// SPDX-License-Identifier: Apache-2.0

// Package plain makes texts of guests, QEMU and other hosts fit for terminals and logs. Whoever
// wrote them may lie: afterwards they can't control a terminal.
package plain

import (
	"strings"
	"unicode"
)

// Text is a text in which each character that isn't printable is a question mark.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
