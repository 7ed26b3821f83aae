// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FilesOf takes the files out of what came beside a message (unix(7), SCM_RIGHTS). The caller owns
// them.
func FilesOf(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive files: %w", err)
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			CloseFiles(fds)
			return nil, fmt.Errorf("receive files: %w", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// CloseFiles closes files that nobody needs; -1 stands for none.
func CloseFiles(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
