// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"strings"
	"testing"
)

// TestMessagesAreThere: our sources have each message that docs/troubleshooting.md explains.
func TestMessagesAreThere(t *testing.T) {
	var all strings.Builder
	joined := regexp.MustCompile(`"\s*\+?\s*"`)
	for _, place := range []string{"cmd/*.go", "gpubackend/*.go", "qemu/*.go", "vm/*.go",
		"guestdriver/kernel/*.[ch]", "guestdriver/libcuda/*.[ch]"} {
		for _, file := range sources(t, place) {
			if !strings.HasSuffix(file, "_test.go") {
				all.WriteString(joined.ReplaceAllString(string(read(t, file)), ""))
			}
		}
	}
	said := all.String()
	bullets := regexp.MustCompile("(?m)^- ((?:`[^`]+`(?: or )?)+):").FindAllStringSubmatch(
		string(read(t, "docs/troubleshooting.md")), -1)
	if len(bullets) < 20 {
		t.Fatalf("docs/troubleshooting.md has %d messages, want at least 20", len(bullets))
	}
	differs := regexp.MustCompile(`\.\.\.|\b[A-Z]\b`)
	for _, b := range bullets {
		for message := range strings.SplitSeq(strings.ReplaceAll(b[1], "` or `", "`"), "`") {
			for _, part := range differs.Split(message, -1) {
				part = strings.Trim(part, " ,:")
				if len(part) > 3 && !strings.Contains(said, part) {
					t.Errorf("no source has %q (of the message %q)", part, message)
				}
			}
		}
	}
}
