#!/usr/bin/env bash
# Runs the stock Placement of Debian beside Berth, on this machine, one after the other,
# with the same calls. Needs root, Debian, and what is installed below:
#   apt-get install placement-api python3-psycopg2 uwsgi-core uwsgi-plugin-python3 postgresql
#
# Placement gets what its own documentation advises: uWSGI with a process for each core,
# and PostgreSQL that keeps what it has acknowledged. All of it is deleted in the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bin=$(echo /usr/lib/postgresql/*/bin | tr ' ' '\n' | tail -n 1)
for tool in placement-api placement-manage uwsgi "$bin/initdb"; do
	if ! command -v "$tool" >/dev/null; then
		echo "$0: $tool is needed: apt-get install placement-api python3-psycopg2 uwsgi-core uwsgi-plugin-python3 postgresql" >&2
		exit 1
	fi
done
if [ "$(id -u)" != 0 ]; then
	echo "$0: run it as root: it runs PostgreSQL as the user postgres" >&2
	exit 1
fi

dir=$(mktemp -d)
port=${PORT:-18778}
finish() {
	[ ! -s "$dir/uwsgi.pid" ] || kill -INT "$(cat "$dir/uwsgi.pid")" || true
	runuser -u postgres -- "$bin/pg_ctl" -D "$dir/db" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap finish EXIT

chmod 711 "$dir"
install -d -o postgres "$dir/db"
runuser -u postgres -- "$bin/initdb" -D "$dir/db" -A trust >/dev/null
runuser -u postgres -- "$bin/pg_ctl" -D "$dir/db" -w -l "$dir/db/log" \
	-o "-c listen_addresses='' -c unix_socket_directories=$dir/db -c max_connections=200" start >/dev/null
runuser -u postgres -- createdb -h "$dir/db" placement

cat >"$dir/placement.conf" <<END
[DEFAULT]
log_file = $dir/placement.log
[api]
auth_strategy = noauth2
[placement_database]
connection = postgresql://postgres@/placement?host=$dir/db
max_pool_size = 8
END
export OS_PLACEMENT_CONFIG_DIR=$dir
placement-manage --config-file "$dir/placement.conf" db sync
uwsgi --plugins python3,http --http "127.0.0.1:$port" --http-keepalive=60 --wsgi-file /usr/bin/placement-api \
	--master --processes "$(nproc)" --threads 8 --lazy-apps --need-app \
	--pidfile "$dir/uwsgi.pid" --disable-logging --daemonize "$dir/uwsgi.log"
for _ in $(seq 100); do
	curl -fs "http://127.0.0.1:$port/" >/dev/null && break
	sleep 0.2
done
curl -fs "http://127.0.0.1:$port/" >/dev/null || { tail -n 60 "$dir/uwsgi.log" >&2; exit 1; }

go run ./bench/peers/placement -url "http://127.0.0.1:$port" "$@"
