// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/signal"
	"syscall"
)

// OutliveTerminal keeps this process and its children from ending when their terminal is closed or
// the reader of their log is gone: the VM would lose its device.
func OutliveTerminal() { signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) }
