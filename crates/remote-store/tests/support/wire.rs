//! HTTP/1.1 requests and responses on the wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) name: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A response; its length is that of the content, unless it responds to `HEAD`.
pub(crate) struct Answer {
    pub(crate) status: String,
    headers: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    /// The announced length.
    pub(crate) length: u64,
}

impl Request {
    pub(crate) fn read(reader: &mut BufReader<&TcpStream>) -> Option<Self> {
        let line = line(reader)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, name) = (words.next()?, words.next()?);
        let headers = headers(reader)?;
        let mut request = Self {
            method,
            name,
            headers,
            body: Vec::new(),
        };
        let length = request
            .header("content-length")
            .map_or(Some(0), |text| text.parse().ok())?;
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// A header's value; its name must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Another server's response to this request, or to the same request for another host.
    pub(crate) fn pass_on(&self, upstream: SocketAddr, host: Option<&str>) -> Option<Answer> {
        let mut stream = TcpStream::connect(upstream).ok()?;
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.name);
        for (name, value) in self.headers.iter().filter(|(name, _)| name != "connection") {
            let value = host.filter(|_| name == "host").unwrap_or(value);
            head += &format!("{name}: {value}\r\n");
        }
        head += "connection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&self.body).ok()?;
        Answer::read(&mut BufReader::new(&stream), &self.method)
    }
}

impl Answer {
    pub(crate) fn new(status: &str) -> Self {
        Self {
            status: status.to_owned(),
            headers: Vec::new(),
            content: Vec::new(),
            length: 0,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn of(mut self, content: Vec<u8>) -> Self {
        self.length = content.len() as u64;
        self.content = content;
        self
    }

    fn read(reader: &mut BufReader<&TcpStream>, method: &str) -> Option<Self> {
        let line = line(reader)?;
        let status = line.split_once(' ')?.1.trim().to_owned();
        let mut headers = headers(reader)?;
        let length = find(&headers, "content-length").and_then(|text| text.parse().ok());
        headers
            .retain(|(name, _)| !["content-length", "connection", "date"].contains(&name.as_str()));
        let mut content = Vec::new();
        if method != "HEAD" {
            reader.read_to_end(&mut content).ok()?;
        }
        Some(Self {
            status,
            headers,
            length: length.unwrap_or(content.len() as u64),
            content,
        })
    }

    /// Writes the response with another length and content.
    pub(crate) fn send(&self, mut stream: &TcpStream, length: u64, content: &[u8]) -> Option<()> {
        let mut head = format!("HTTP/1.1 {}\r\nContent-Length: {length}\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(content).ok()
    }
}

/// A line; `None` at the end.
fn line(reader: &mut BufReader<&TcpStream>) -> Option<String> {
    let mut line = String::new();
    let bytes = reader.read_line(&mut line).ok()?;
    (bytes > 0).then_some(line)
}

/// Names in lower case, and values.
fn headers(reader: &mut BufReader<&TcpStream>) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?;
        let line = line.trim();
        if line.is_empty() {
            return Some(headers);
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut known = headers.iter();
    known
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}
