// Command berth is all of Berth in one binary: the processes of a zone (a node,
// an agent, a demonstration), and the verbs of its callers and operators.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set when the binary is built: -ldflags "-X main.version=v1.2.3".
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(report(os.Stderr, err))
}

// run carries out one command line, without the name of the program. Everything
// that it touches of the world is handed in, so that tests call it as main does.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) error {
	return newEnv(getenv, stdin, stdout, stderr).execute(ctx, args)
}
