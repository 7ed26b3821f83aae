// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// logLine is a warning in a format.
func logLine(t *testing.T, format string) string {
	t.Helper()
	var out strings.Builder
	how := &Flags{Level: "debug", Format: format, VM: "v"}
	log, end, err := New(&out, how, "device")
	if err != nil {
		t.Fatal(err)
	}
	log.WithField("program", "two\nlines").Warn("a text")
	end()
	return out.String()
}

func TestLogFormats(t *testing.T) {
	if line := logLine(t, formatText); !strings.HasPrefix(line, "time=") ||
		!strings.Contains(line, "level=warning") {
		t.Errorf("text: %q", line)
	}
	line := logLine(t, formatJournal)
	if !strings.HasPrefix(line, "<4>") || strings.Contains(line, "time=") ||
		strings.Count(line, "\n") != 1 {
		t.Errorf("journal: %q", line)
	}
	var fields map[string]string
	line = logLine(t, formatJSON)
	if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["msg"] != "a text" ||
		fields["program"] != "two\nlines" || fields["vm"] != "v" ||
		fields["level"] != "warning" || fields["time"] == "" {
		t.Errorf("json: %q, %v", line, err)
	}
	o := Flags{Level: "info", Format: "xml"}
	if err := o.Settle(); err == nil || !strings.Contains(err.Error(), "--log-format xml") {
		t.Errorf("xml: error %v", err)
	}
}

func TestPriorities(t *testing.T) {
	for level, want := range map[string]int{"error": 3, "warning": 4, "info": 6, "debug": 7} {
		l, err := ParseLevel(level)
		if err != nil || priority(l) != want {
			t.Errorf("%s: %d, %v", level, priority(l), err)
		}
	}
}

func TestIsJournal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	stream := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	if !isJournal(file, stream) || isJournal(file, "") || isJournal(file, "1:"+stream) {
		t.Errorf("stream %s", stream)
	}
}
