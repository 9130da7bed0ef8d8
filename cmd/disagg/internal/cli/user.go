package cli

import (
	"os/user"
	"strconv"

	"os"
)

// userName is the login name of whoever runs this, as the scheduler knows it.
func userName(a *app) string {
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		return u.Username
	}
	if n, ok := a.getenv("USER"); ok {
		return n
	}
	return strconv.Itoa(os.Getuid())
}
