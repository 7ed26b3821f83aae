// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"strings"
)

// line is one of a description, and its number.
type line struct {
	number int
	text   string
}

// readLines reads a description. An indented line that has only a comment goes on with the comment
// of the line before it.
func readLines(r io.Reader) (lines []line, err error) {
	s := bufio.NewScanner(r)
	commented := false // the last line has more than a comment, which may go on
	for n := 1; s.Scan(); n++ {
		text := s.Text()
		code, comment, has := strings.Cut(text, "#")
		if commented && has && code != "" && strings.TrimSpace(code) == "" {
			lines[len(lines)-1].text += " " + strings.TrimSpace(comment)
			continue
		}
		commented = has && strings.TrimSpace(code) != ""
		lines = append(lines, line{n, text})
	}
	return lines, s.Err()
}
