// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

// Forms of the log's lines.
const (
	formatAuto    = "auto"
	formatText    = "text"
	formatJournal = "journal"
	formatJSON    = "json"
)

var formats = []string{formatAuto, formatText, formatJournal, formatJSON}

// Flags say what is logged and how.
type Flags struct {
	Level, Format string
	// VM is the name of the VM that the log is about; "": none.
	VM string
}

// Add adds the flags to those of a command, with a level unless another is chosen.
func (o *Flags) Add(c *cobra.Command, level string) {
	f := c.Flags()
	f.StringVar(&o.Level, "log-level", level, "log from `LEVEL` on: debug, info, warning or error")
	f.StringVar(&o.Format, "log-format", formatAuto,
		"log in `FORMAT`: text, journal (systemd's: priorities instead of times), json, or auto: "+
			"journal where standard error is the journal, text elsewhere")
	cli.Complete(c, "log-level", cli.Words("debug", "info", "warning", "error"))
	cli.Complete(c, "log-format", cli.Words(formats...))
}

// Settle replaces auto by what it stands for.
func (o *Flags) Settle() error {
	if o.Format == "" {
		o.Format = formatAuto
	}
	if !slices.Contains(formats, o.Format) {
		return cli.Usagef("--log-format %s: want one of %s", o.Format, strings.Join(formats, ", "))
	}
	if o.Format == formatAuto {
		o.Format = formatText
		if isJournal(os.Stderr, os.Getenv("JOURNAL_STREAM")) {
			o.Format = formatJournal
		}
	}
	return nil
}

// AddVM adds the option by which a child is told whose process it is.
func (o *Flags) AddVM(c *cobra.Command) {
	c.Flags().StringVar(&o.VM, "log-vm", "", "say in each line that it is about the VM `NAME`")
}

// Args are the flags as a child gets them, but for the VM.
func (o *Flags) Args() []string {
	return []string{"--log-level", o.Level, "--log-format", o.Format}
}

// isJournal says whether a file is the stream that systemd says is the journal's (systemd.exec(5),
// JOURNAL_STREAM).
func isJournal(file *os.File, stream string) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// formatter makes the formatter of a format.
func formatter(format string) logrus.Formatter {
	switch format {
	case formatJSON:
		return &logrus.JSONFormatter{}
	case formatJournal:
		return journalFormatter{
			&logrus.TextFormatter{DisableColors: true, DisableTimestamp: true},
		}
	}
	return &logrus.TextFormatter{DisableColors: true, FullTimestamp: true}
}

// journalFormatter begins each line with its priority (sd-daemon(3)). The journal has the time.
type journalFormatter struct{ text logrus.Formatter }

func (j journalFormatter) Format(e *logrus.Entry) ([]byte, error) {
	line, err := j.text.Format(e)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "<%d>", priority(e.Level)), line...), nil
}

// priority is syslog's number of a level.
func priority(l logrus.Level) int {
	switch {
	case l <= logrus.FatalLevel:
		return 2
	case l == logrus.ErrorLevel:
		return 3
	case l == logrus.WarnLevel:
		return 4
	case l == logrus.InfoLevel:
		return 6
	}
	return 7
}
