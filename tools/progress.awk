# Reads the output of "go build -v" and a last line "exit CODE", and prints how far the build is: on a terminal in
# one line, elsewhere every 25 packages. What the compiler says is printed as it is. total is the number of all packages.
BEGIN { terminal = system("test -t 1") == 0; begun = 10 } # fewer packages take a moment
/^exit [0-9]+$/ { code = $2; next }
/^go: / || /^#/ || / / || /:/ { if (shown) print ""; shown = 0; print; next } # downloads and errors
{
	n++
	if (n == begun) print "Building bin/berth: the first build compiles about " total " packages, in one to three minutes."
	if (terminal && n >= begun) { printf "\r  %d of %d: %-60.60s", n, total, $0; shown = 1 }
	else if (!terminal && n % 25 == 0) print "  " n " of " total
	fflush()
}
END {
	if (shown) print ""
	if (n >= begun && code == 0) print "  built bin/berth"
	exit code
}
